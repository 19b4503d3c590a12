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

// site is the provider cluster and namespace under check.
type site struct {
	// given are the identities whose kubeconfigs were given.
	given []*identity
	// driver is the identity that creates machines, looker the one that sends all other requests;
	// nil if the identity cannot log in. They may be the same.
	driver, looker *identity
	namespace      string
	evacuation     bool
	classes        []classSite

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

// classSite is a class at the site.
type classSite struct {
	*site

	Class

	// secrets, image and vm are the objects that the driver would create for the machine; image is
	// nil for a machine without a golden image.
	secrets []*corev1.Secret
	image   *cdiv1beta1.DataVolume
	vm      *kubevirtv1.VirtualMachine
}

// enter logs in the identities, and prepares the checks.
func enter(ctx context.Context, clients *providerapi.Cache, in *Input) (*site, []Result) {
	s := &site{evacuation: in.Evacuation}

	var results []Result

	for _, c := range []struct {
		name string
		*Credentials
	}{{Driver, in.Driver}, {Admin, in.Admin}} {
		if c.Credentials == nil {
			continue
		}

		i := &identity{name: c.name, from: c.From, raw: c.Kubeconfig}
		s.given = append(s.given, i)

		login := i.login(ctx, clients, in.Now)
		results = append(results, login...)

		// The driver's kubeconfig names the namespace of the machines, even if the login fails.
		if s.namespace == "" && i.clients != nil {
			s.namespace = i.clients.Namespace
		}

		if slices.ContainsFunc(login, func(r Result) bool { return r.Check == checkCredentials && r.Level == Error }) {
			continue
		}

		s.admit(i, in.Driver == nil)
	}

	if s.looker == nil {
		return s, results
	}

	results = append(results, s.checkSameCluster(ctx)...)
	s.remember(ctx)

	return s, append(results, s.render(in.Classes)...)
}

// checkSameCluster checks that both identities see the same KubeVirt object, which every
// authenticated user may read. If not, the admin's view does not apply to the driver's machines.
func (s *site) checkSameCluster(ctx context.Context) []Result {
	if s.driver == nil || s.driver == s.looker {
		return nil
	}

	here, err := s.driver.getKubeVirt(ctx)
	if err != nil {
		return nil // checkKubeVirt reports this.
	}

	there, err := s.looker.getKubeVirt(ctx)
	if err != nil || here.UID == there.UID {
		return nil
	}

	admin := s.looker
	s.looker = s.driver

	return []Result{view{identity: admin}.fail(checkCredentials, admin.from, fmt.Sprintf(
		"server %s is another cluster than %s, where the machines live: the driver looks at what it may instead", admin.clients.Server, s.driver.clients.Server),
		"give the kubeconfig of an admin of the same cluster with --provider-kubeconfig; classes of several clusters are checked one by one")}
}

// admit adds an identity that can log in. The last one becomes the looker.
func (s *site) admit(i *identity, alone bool) {
	s.looker = i

	if i.name == Driver || alone {
		s.driver = i
	}
}

// render creates the objects of the classes' machines. A class for
// which this fails is not checked further.
func (s *site) render(classes []Class) []Result {
	var results []Result

	for _, class := range classes {
		c := classSite{site: s, Class: class, secrets: render.Secrets(class.Machine, s.namespace)}

		var err error
		if c.vm, err = render.VirtualMachine(class.Machine, s.namespace); err == nil && class.Machine.Spec.UsesGoldenImage() {
			c.image, err = class.Machine.Image().DataVolume(s.namespace)
		}

		if err != nil {
			results = append(results, Unusable(class.Name, err.Error()))

			continue
		}

		s.classes = append(s.classes, c)
	}

	return results
}

// Unusable is the result for a class that no machine can be created from, on any provider cluster.
func Unusable(class, message string) Result {
	return view{class: class}.fail(checkClass, "MachineClass "+class, message, "mcm-kubevirt validate says which fields to change")
}

func (s *site) remember(ctx context.Context) {
	s.kubeVirt = sync.OnceValues(func() (*kubevirtv1.KubeVirt, error) { return s.looker.getKubeVirt(ctx) })
	s.hosts = sync.OnceValues(func() ([]corev1.Node, error) { return s.listNodes(ctx) })
	s.loads = sync.OnceValues(func() ([]load, error) { return s.listLoads(ctx) })
	s.storages = sync.OnceValue(func() *storages { return s.listStorages(ctx) })
	s.quotas = sync.OnceValues(func() ([]corev1.ResourceQuota, error) { return s.listQuotas(ctx) })
	s.limits = sync.OnceValues(func() ([]corev1.LimitRange, error) { return s.listLimitRanges(ctx) })
}

func (s *site) usesGoldenImages() bool {
	return slices.ContainsFunc(s.classes, func(c classSite) bool { return c.image != nil })
}

func (s *site) identities() []Identity {
	list := make([]Identity, 0, len(s.given))

	for _, i := range s.given {
		known := Identity{Name: i.name, From: statustext.Printable(i.from), User: statustext.Printable(i.user)}
		if i.clients != nil {
			known.Server = statustext.Printable(i.clients.Server)
		}

		list = append(list, known)
	}

	return list
}

// view returns the class's view with the identity of the looker.
func (c *classSite) view() view {
	return view{identity: c.looker, class: c.Name}
}

// asDriver returns the class's view with the identity of the driver.
func (c *classSite) asDriver() view {
	return view{identity: c.driver, class: c.Name}
}

// field returns the field of the class that a field of its VirtualMachine comes from.
func (c *classSite) field(path string) string {
	return render.InTermsOfProviderSpec(path, c.Machine, c.vm)
}
