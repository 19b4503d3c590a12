package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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

const (
	driverAccount  = "machine-controller" // in the provider cluster
	mcmAccount     = "machine-controller-manager"
	sidecarAccount = "machine-controller"
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
	rules, err := shippedRules(driverManifest)
	if err != nil {
		return err
	}
	w.namespaceWithAccount(ctx)
	w.account(ctx, driverAccount)
	w.role(ctx, s.ProviderNamespace, driverAccount, rules, driverAccount)
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
	accounts := []string{mcmAccount, sidecarAccount}
	for _, account := range accounts {
		w.account(ctx, account)
	}
	w.role(ctx, s.Namespace, mcmAccount, controlRules(), accounts...)
	w.role(ctx, metav1.NamespaceSystem, s.Namespace+"-machine-controller-manager", bootstrapRules(), accounts...)
	w.clusterRole(ctx, "lab:target:"+s.Namespace, targetRules(), accounts...)
	s.MCMKubeconfig = w.write(l.shootDir(s), mcmAccount, w.kubeconfig(ctx, mcmAccount))
	s.SidecarKubeconfig = w.write(l.shootDir(s), sidecarAccount, w.kubeconfig(ctx, sidecarAccount))
	return w.err
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

// role creates a role in a namespace and grants it to service accounts of the writer's namespace.
func (w *writer) role(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, accounts ...string) {
	w.do("create role "+name, func() error {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: w.subjects(accounts),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		}
		_, created := w.client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
		_, bound := w.client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
		return errors.Join(created, bound)
	})
}

func (w *writer) clusterRole(ctx context.Context, name string, rules []rbacv1.PolicyRule, accounts ...string) {
	w.do("create cluster role "+name, func() error {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: w.subjects(accounts),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
		_, created := w.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		_, bound := w.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		return errors.Join(created, bound)
	})
}

func (w *writer) subjects(accounts []string) []rbacv1.Subject {
	subjects := make([]rbacv1.Subject, 0, len(accounts))
	for _, account := range accounts {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: account})
	}
	return subjects
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
