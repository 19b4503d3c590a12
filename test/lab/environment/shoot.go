package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
)

// Shoot is what one shoot has in the lab: a namespace and identities in both clusters.
type Shoot struct {
	Name              string
	Namespace         string // of its Machines in the control cluster
	ProviderNamespace string // of its virtual machines in the provider cluster
	// ProviderKubeconfig goes into the MachineClass's credentials Secret under the key "kubeconfig".
	ProviderKubeconfig []byte
	// ProviderKubeconfigFile is a file with the same content, for a person to look around with the driver's rights.
	ProviderKubeconfigFile string
	// MCMKubeconfig and SidecarKubeconfig are files; each serves for the control and the target cluster.
	MCMKubeconfig, SidecarKubeconfig string
}

// The accounts, as the shipped manifests name them. Machine-controller-manager and its sidecar are containers of one pod, and share one.
const (
	driverAccount = "machine-controller" // in the provider cluster
	mcmAccount    = "machine-controller-manager"
)

// AddShoot creates the namespaces, identities and rights of one more shoot.
func (l *Lab) AddShoot(ctx context.Context, name string) (*Shoot, error) {
	s := &Shoot{Name: name, Namespace: "shoot--lab--" + name, ProviderNamespace: name}
	if err := l.addDriver(ctx, s); err != nil {
		return nil, fmt.Errorf("add shoot %s to the provider cluster: %w", name, err)
	}
	if err := l.addControllers(ctx, s); err != nil {
		return nil, fmt.Errorf("add shoot %s to the control cluster: %w", name, err)
	}
	return s, nil
}

func (l *Lab) addDriver(ctx context.Context, s *Shoot) error {
	w, err := newWriter(l.Provider, s.ProviderNamespace)
	if err != nil {
		return err
	}
	w.namespaceWithAccount(ctx)
	w.do("apply rights", func() error {
		return l.applyShipped(ctx, l.Provider, providerOverlay, shippedProviderNamespace, s.ProviderNamespace)
	})
	s.ProviderKubeconfig = w.kubeconfig(ctx, driverAccount)
	s.ProviderKubeconfigFile = w.write(l.shootDir(s), "provider", s.ProviderKubeconfig)
	return w.err
}

func (l *Lab) addControllers(ctx context.Context, s *Shoot) error {
	w, err := newWriter(l.Control, s.Namespace)
	if err != nil {
		return err
	}
	w.namespaceWithAccount(ctx)
	w.do("apply rights in the control cluster", func() error {
		return l.applyShipped(ctx, l.Control, controlOverlay, shippedNamespace, s.Namespace)
	})
	w.do("apply rights in the target cluster", func() error { return l.allowTarget(ctx, s) })
	kubeconfig := w.kubeconfig(ctx, mcmAccount)
	s.MCMKubeconfig = w.write(l.shootDir(s), mcmAccount, kubeconfig)
	s.SidecarKubeconfig = w.write(l.shootDir(s), "machine-controller", kubeconfig)
	return w.err
}

// allowTarget applies the rights in the target cluster. Shoots have one each; here all share one, so their bindings get other names.
func (l *Lab) allowTarget(ctx context.Context, s *Shoot) error {
	objects, err := l.manifests.of(ctx, targetOverlay, shippedNamespace, s.Namespace)
	if err != nil {
		return err
	}
	for i := range objects {
		if strings.HasSuffix(objects[i].GetKind(), "Binding") {
			objects[i].SetName(objects[i].GetName() + "-" + s.Name)
		}
	}
	return l.Control.Apply(ctx, objects)
}

func (l *Lab) shootDir(s *Shoot) string { return filepath.Join(l.folder.data(), "shoots", s.Name) }

// writer creates the objects of a shoot in one cluster. It does nothing after the first error, which it keeps in err.
type writer struct {
	cluster   *controlplane.Cluster
	client    kubernetes.Interface
	namespace string
	err       error
}

func newWriter(c *controlplane.Cluster, namespace string) (*writer, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &writer{cluster: c, client: client, namespace: namespace}, nil
}

func (w *writer) do(what string, f func() error) {
	if w.err != nil {
		return
	}
	if err := f(); err != nil {
		w.err = fmt.Errorf("%s: %w", what, err)
	}
}

// namespaceWithAccount creates the namespace and waits for its default service account: no pod starts before.
func (w *writer) namespaceWithAccount(ctx context.Context) {
	w.do("create namespace "+w.namespace, func() error {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		if _, err := w.client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
		const every, atMost = 50 * time.Millisecond, time.Minute
		return wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
			_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	})
}

func (w *writer) account(ctx context.Context, name string) {
	w.do("create service account "+name, func() error {
		o := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// kubeconfig returns one with a fresh token of a service account, and its namespace as the default.
func (w *writer) kubeconfig(ctx context.Context, account string) (data []byte) {
	w.do("make kubeconfig of "+account, func() error {
		const week = int64(7 * 24 * 60 * 60)
		seconds := week
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		got, err := w.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		data, err = w.cluster.Kubeconfig(got.Status.Token, w.namespace)
		return err
	})
	return data
}

// write writes <dir>/<name>.kubeconfig and returns its path.
func (w *writer) write(dir, name string, kubeconfig []byte) string {
	path := filepath.Join(dir, name+".kubeconfig")
	w.do("write kubeconfig of "+name, func() error {
		return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, kubeconfig, 0o600))
	})
	return path
}
