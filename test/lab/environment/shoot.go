// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
)

// Shoot holds one shoot's namespaces and identities in both clusters.
type Shoot struct {
	Name              string
	Namespace         string // of its Machines in the control cluster
	ProviderNamespace string // of its virtual machines in the provider cluster
	// ProviderKubeconfig is the value of the key "kubeconfig" in the
	// MachineClass's credentials Secret.
	ProviderKubeconfig []byte
	// ProviderKubeconfigFile is a file with the same content, for interactive use
	// with the driver's permissions.
	ProviderKubeconfigFile string
	// MCMKubeconfig and SidecarKubeconfig are files; each is valid for the control
	// and the target cluster.
	MCMKubeconfig, SidecarKubeconfig string
}

// The accounts as named in the shipped manifests. Machine-controller-manager and its sidecar are
// containers of one pod and share an account.
const (
	driverAccount = "machine-controller" // in the provider cluster
	mcmAccount    = "machine-controller-manager"
)

// hostDevices is the label with which the administrator allows workers with host devices
// (kubernetes/provider-cluster).
const hostDevices = "kubevirt.machine.gardener.cloud/host-devices"

// AddShoot creates the namespaces, identities and permissions of a shoot.
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
	w.do("apply the objects of the provider cluster's admin", func() error { return l.applyProvider(ctx, s, false) })
	w.awaitDefaultAccount(ctx)
	w.awaitRight(ctx, driverAccount, authorizationv1.ResourceAttributes{
		Verb:      "create",
		Group:     "kubevirt.io",
		Resource:  "virtualmachines",
		Namespace: s.ProviderNamespace,
	})
	s.ProviderKubeconfig = w.kubeconfig(ctx, driverAccount)
	s.ProviderKubeconfigFile = w.write(l.shootDir(s), "provider", s.ProviderKubeconfig)
	return w.err
}

// LimitShoot applies the quota of the shipped manifests to the shoot. It suffices for the example;
// AddShoot omits it because most tests use other numbers of machines.
func (l *Lab) LimitShoot(ctx context.Context, s *Shoot) error {
	if err := l.applyProvider(ctx, s, true); err != nil {
		return fmt.Errorf("limit shoot %s: %w", s.Name, err)
	}
	return nil
}

// applyProvider applies either the shipped quota, or all other shipped objects for the namespace
// of the shoot's machines.
func (l *Lab) applyProvider(ctx context.Context, s *Shoot, quota bool) error {
	objects, err := l.manifests.of(ctx, providerOverlay, shippedProviderNamespace, s.ProviderNamespace)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		return quota != (o.GetKind() == "ResourceQuota" || o.GetKind() == "LimitRange")
	})
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			o.SetLabels(labels.Merge(o.GetLabels(), labels.Set{hostDevices: "allowed"}))
		}
	}
	return l.Provider.Apply(ctx, objects)
}

func (l *Lab) addControllers(ctx context.Context, s *Shoot) error {
	w, err := newWriter(l.Control, s.Namespace)
	if err != nil {
		return err
	}
	w.do("create namespace", func() error {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		_, err := w.client.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		return err
	})
	w.awaitDefaultAccount(ctx)
	w.do("apply permissions in the control cluster", func() error {
		return l.applyShipped(ctx, l.Control, controlOverlay, shippedNamespace, s.Namespace)
	})
	w.do("apply permissions in the target cluster", func() error {
		return l.applyShipped(ctx, l.Control, targetOverlay, shippedNamespace, s.Namespace)
	})
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "machine.sapcloud.io", Resource: "machines", Namespace: s.Namespace},
		{Verb: "list", Resource: "nodes"},
		{Verb: "create", Resource: "secrets", Namespace: metav1.NamespaceSystem},
	} {
		w.awaitRight(ctx, mcmAccount, right)
	}
	kubeconfig := w.kubeconfig(ctx, mcmAccount)
	s.MCMKubeconfig = w.write(l.shootDir(s), mcmAccount, kubeconfig)
	s.SidecarKubeconfig = w.write(l.shootDir(s), "machine-controller", kubeconfig)
	return w.err
}

func (l *Lab) shootDir(s *Shoot) string { return filepath.Join(l.folder.data(), "shoots", s.Name) }

// writer creates the objects of a shoot in one cluster. After the first error, which it keeps
// in err, it does nothing.
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

// awaitDefaultAccount waits for the namespace's default service account,
// without which no pod starts.
func (w *writer) awaitDefaultAccount(ctx context.Context) {
	w.do("await the default account of "+w.namespace, func() error {
		const every, atMost = 50 * time.Millisecond, 5 * time.Minute
		return wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
			_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	})
}

// awaitRight waits until the bindings of an account of the namespace give it a permission.
func (w *writer) awaitRight(ctx context.Context, account string, right authorizationv1.ResourceAttributes) {
	w.do("await the permissions of "+account, func() error { return awaitRight(ctx, w.cluster, w.namespace, account, right) })
}

func (w *writer) account(ctx context.Context, name string) {
	w.do("create service account "+name, func() error {
		o := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// kubeconfig returns a kubeconfig with a fresh token of a service account and with its
// namespace as the default.
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
