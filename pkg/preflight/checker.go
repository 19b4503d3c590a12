package preflight

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// checker checks one provider cluster and namespace.
type checker struct {
	// given are the identities of all kubeconfigs, including those that cannot log in.
	given []*identity
	// driver is the identity that creates machines, viewer the one that sends all other requests;
	// nil if the identity cannot log in. They may be the same.
	driver, viewer *identity
	namespace      string
	evacuation     bool
	classes        []classChecker

	// Objects that many checks need are read once.
	kubeVirt func() (*kubevirtv1.KubeVirt, error)
	hosts    func() ([]corev1.Node, error)
	loads    func() ([]load, error)
	storages func() *storages
	quotas   func() ([]corev1.ResourceQuota, error)
	limits   func() ([]corev1.LimitRange, error)
}

// identity is a user of the provider cluster that sends requests.
type identity struct {
	name    string
	from    string
	raw     []byte
	clients *providerapi.Clients
	user    string
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
}

// newChecker logs in the identities, and prepares the checks.
func newChecker(ctx context.Context, clients *providerapi.Cache, in *Input) (*checker, []Result) {
	c := &checker{evacuation: in.Evacuation}

	var results []Result

	for _, given := range []struct {
		name string
		*Credentials
	}{{Driver, in.Driver}, {Admin, in.Admin}} {
		if given.Credentials == nil {
			continue
		}

		i := &identity{name: given.name, from: given.From, raw: given.Kubeconfig}
		c.given = append(c.given, i)

		login := i.login(ctx, clients, in.Now)
		results = append(results, login...)

		// The driver's kubeconfig names the namespace of the machines, even if the login fails.
		if c.namespace == "" && i.clients != nil {
			c.namespace = i.clients.Namespace
		}

		if slices.ContainsFunc(login, func(r Result) bool { return r.Check == checkCredentials && r.Level == Error }) {
			continue
		}

		c.addIdentity(i, in.Driver == nil)
	}

	if c.viewer == nil {
		return c, results
	}

	results = append(results, c.checkSameCluster(ctx)...)
	c.cacheLists(ctx)

	return c, append(results, c.render(in.Classes)...)
}

// checkSameCluster checks that both identities see the same KubeVirt object, which every
// authenticated user may read. If not, the admin's view does not apply to the driver's machines.
func (c *checker) checkSameCluster(ctx context.Context) []Result {
	if c.driver == nil || c.driver == c.viewer {
		return nil
	}

	here, err := c.driver.getKubeVirt(ctx)
	if err != nil {
		return nil // checkKubeVirt reports this.
	}

	there, err := c.viewer.getKubeVirt(ctx)
	if err != nil || here.UID == there.UID {
		return nil
	}

	admin := c.viewer
	c.viewer = c.driver

	return []Result{view{identity: admin}.fail(checkCredentials, admin.from, fmt.Sprintf(
		"server %s is not the cluster of the machines, %s: the driver's account is used instead", admin.clients.Server, c.driver.clients.Server),
		"set --provider-kubeconfig to the kubeconfig of an admin of the same cluster, and check classes of different clusters one by one")}
}

// addIdentity adds an identity that can log in. The last one becomes the viewer.
func (c *checker) addIdentity(i *identity, alone bool) {
	c.viewer = i

	if i.name == Driver || alone {
		c.driver = i
	}
}

// render creates the objects of the classes' machines. A class for
// which this fails is not checked further.
func (c *checker) render(classes []Class) []Result {
	var results []Result

	for _, class := range classes {
		checked := classChecker{checker: c, Class: class, secrets: render.Secrets(class.Machine, c.namespace)}

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
	return view{class: class}.fail(checkClass, "MachineClass "+class, message, "run mcm-kubevirt validate to list the fields to change")
}

func (c *checker) cacheLists(ctx context.Context) {
	c.kubeVirt = sync.OnceValues(func() (*kubevirtv1.KubeVirt, error) { return c.viewer.getKubeVirt(ctx) })
	c.hosts = sync.OnceValues(func() ([]corev1.Node, error) { return c.listNodes(ctx) })
	c.loads = sync.OnceValues(func() ([]load, error) { return c.listLoads(ctx) })
	c.storages = sync.OnceValue(func() *storages { return c.listStorages(ctx) })
	c.quotas = sync.OnceValues(func() ([]corev1.ResourceQuota, error) { return c.listQuotas(ctx) })
	c.limits = sync.OnceValues(func() ([]corev1.LimitRange, error) { return c.listLimitRanges(ctx) })
}

func (c *checker) usesGoldenImages() bool {
	return slices.ContainsFunc(c.classes, func(class classChecker) bool { return class.image != nil })
}

func (c *checker) identities() []Identity {
	list := make([]Identity, 0, len(c.given))

	for _, i := range c.given {
		known := Identity{Name: i.name, From: statustext.Printable(i.from), User: statustext.Printable(i.user)}
		if i.clients != nil {
			known.Server = statustext.Printable(i.clients.Server)
		}

		list = append(list, known)
	}

	return list
}

// view returns the class's view with the identity of the viewer.
func (c *classChecker) view() view {
	return view{identity: c.viewer, class: c.Name}
}

// asDriver returns the class's view with the identity of the driver.
func (c *classChecker) asDriver() view {
	return view{identity: c.driver, class: c.Name}
}

// field returns the field of the class that a field of its VirtualMachine comes from.
func (c *classChecker) field(path string) string {
	return render.InTermsOfProviderSpec(path, c.Machine, c.vm)
}
