package checks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// checker checks one provider cluster and namespace.
type checker struct {
	// identities are those of all kubeconfigs, including those that cannot log in.
	identities []Identity
	// driver is the identity that creates machines, viewer the one that sends all other requests;
	// nil if the identity cannot log in. They may be the same.
	driver, viewer *identity
	namespace      string
	evacuation     bool
	classes        []*classChecker
	now            time.Time

	// Objects that many checks need are read once.
	kubeVirt func() (*kubevirtv1.KubeVirt, error)
	nodes    func() ([]corev1.Node, error)
	storages func() *storages
	quotas   func() ([]corev1.ResourceQuota, error)
}

// identity is a user of the provider cluster with its clients. The texts are not sanitized.
type identity struct {
	Identity

	clients *providerapi.Clients
}

// classChecker checks one class on that cluster.
type classChecker struct {
	*checker

	Class

	// secrets, image and vm are the objects that the driver would create for the machine; image is
	// nil for a machine without a golden image.
	secrets []*corev1.Secret
	image   *cdiv1beta1.DataVolume
	vm      *kubevirtv1.VirtualMachine

	// instancetype is the spec of the machine's instancetype, read once; nil if there is none.
	instancetype func() *instancetypev1beta1.VirtualMachineInstancetypeSpec
}

// newChecker logs in the identities, and prepares the checks.
func newChecker(ctx context.Context, in *Input) (*checker, []Result) {
	var (
		c       = &checker{evacuation: in.Evacuation, now: in.Now}
		clients = providerapi.NewCache(providerapi.Options{QPS: requestsPerSecond, Burst: burst})
		results []Result
		given   = map[string]*identity{}
	)

	for _, by := range []struct {
		name string
		*Credentials
	}{{Driver, in.Driver}, {Admin, in.Admin}} {
		if by.Credentials == nil {
			continue
		}

		i := &identity{Identity: Identity{Name: by.name, From: by.From}}
		given[i.Name] = i
		login, ok := i.login(ctx, clients, by.Kubeconfig, in.Now)
		results = append(results, login...)
		c.add(i)

		if !ok {
			continue
		}

		c.viewer = i
		if i.Name == Driver || in.Driver == nil {
			c.driver = i
		}
	}

	if c.viewer == nil {
		return c, results
	}

	results = append(results, c.checkSameCluster(ctx, given[Driver], given[Admin])...)
	c.cacheReads(ctx)

	return c, append(results, c.render(ctx, in.Classes)...)
}

// add adds an identity to the report.
func (c *checker) add(i *identity) {
	c.identities = append(c.identities, Identity{
		Name:   i.Name,
		From:   statustext.Printable(i.From),
		Server: statustext.Printable(i.Server),
		User:   statustext.Printable(i.User),
	})

	// The driver's kubeconfig names the namespace of the machines, even if the login fails.
	if c.namespace == "" && i.clients != nil {
		c.namespace = i.clients.Namespace
	}
}

// checkSameCluster compares the clusters of both identities by the KubeVirt object, which every
// authenticated user may read. The admin's view of another cluster does not apply to the driver's
// machines. An identity is nil if it was not given.
func (c *checker) checkSameCluster(ctx context.Context, driver, admin *identity) []Result {
	if driver == nil || admin == nil || c.viewer != admin {
		return nil
	}

	s := admin.about(checkCredentials, admin.From)
	remedy := "set --provider-kubeconfig to the kubeconfig of an admin of the same cluster, and check classes of different clusters one by one"

	switch same, known := sameCluster(ctx, c.driver, c.viewer); {
	case known && same, !known && driver.Server == admin.Server:
		return nil
	case known:
		c.viewer = c.driver

		return s.fail(fmt.Sprintf("server %s is not the cluster of the machines, %s: the driver's account is used instead", admin.Server, driver.Server), remedy)
	default:
		return s.warn(fmt.Sprintf("server %s may not be the cluster of the machines, %s, which cannot be compared with it: the results of the admin's "+
			"account apply only if both are the same cluster", admin.Server, driver.Server), remedy)
	}
}

// SameCluster reports whether two kubeconfigs lead to the same cluster, which may have several URLs. This is not
// known if one of them cannot be used, or if there is no KubeVirt on either cluster.
func SameCluster(ctx context.Context, one, other []byte) (same, known bool) {
	clients := providerapi.NewCache(providerapi.Options{QPS: requestsPerSecond, Burst: burst})
	here, err := clients.For(one)
	there, otherErr := clients.For(other)

	if err != nil || otherErr != nil {
		return false, false
	}

	return sameCluster(ctx, &identity{clients: here}, &identity{clients: there})
}

// sameCluster reports whether both identities see the same KubeVirt object. This is not known if neither of them
// sees one. An identity is nil if its login failed.
func sameCluster(ctx context.Context, one, other *identity) (same, known bool) {
	if one == nil || other == nil {
		return false, false
	}

	here, err := one.getKubeVirt(ctx)
	there, adminErr := other.getKubeVirt(ctx)

	switch {
	case err == nil && adminErr == nil:
		return here.UID == there.UID, true
	case err == nil && errors.Is(adminErr, errNotInstalled), adminErr == nil && errors.Is(err, errNotInstalled):
		return false, true
	default: // checkKubeVirt reports the error.
		return false, false
	}
}

// render creates the objects of the classes' machines. A class for
// which this fails is not checked further.
func (c *checker) render(ctx context.Context, classes []Class) []Result {
	var results []Result

	for _, class := range classes {
		checked := &classChecker{checker: c, Class: class, secrets: render.Secrets(class.Machine, c.namespace)}
		checked.instancetype = sync.OnceValue(func() *instancetypev1beta1.VirtualMachineInstancetypeSpec { return checked.getInstancetype(ctx) })

		var err error
		if checked.vm, err = render.VirtualMachine(class.Machine, c.namespace); err == nil && class.Machine.Spec.UsesGoldenImage() {
			checked.image, err = class.Machine.Image().DataVolume(c.namespace)
		}

		if err != nil {
			results = append(results, Unusable(class.Name, err.Error()))

			continue
		}

		c.classes = append(c.classes, checked)
	}

	return results
}

// Unusable is the result for a class that no machine can be created from, on any provider cluster.
func Unusable(class, message string) Result {
	return subject{check: checkClass, class: class, name: "MachineClass " + class}.
		fail(message, "run mcm-kubevirt validate to list the fields to change")[0]
}

func (c *checker) cacheReads(ctx context.Context) {
	kubernetes := c.viewer.clients.Kubernetes.CoreV1()

	c.kubeVirt = sync.OnceValues(func() (*kubevirtv1.KubeVirt, error) { return c.viewer.getKubeVirt(ctx) })
	c.nodes = sync.OnceValues(func() ([]corev1.Node, error) { return c.listNodes(ctx) })
	c.storages = sync.OnceValue(func() *storages { return c.listStorages(ctx) })
	c.quotas = sync.OnceValues(func() ([]corev1.ResourceQuota, error) {
		return listFew[corev1.ResourceQuota](ctx, kubernetes.ResourceQuotas(c.namespace))
	})
}

// about returns a subject that the identity sends requests for.
func (i *identity) about(check, name string) subject {
	return subject{check: check, identity: i.Name, name: name}
}

// about returns a subject that the viewer sends requests for.
func (c *classChecker) about(check, name string) subject {
	return subject{check: check, identity: c.viewer.Name, class: c.Name, name: name}
}

// field returns the field of the class that a field of its VirtualMachine comes from.
func (c *classChecker) field(path string) string {
	return render.InTermsOfProviderSpec(path, c.Machine, c.vm)
}
