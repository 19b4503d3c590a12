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

// site is the provider cluster and namespace that is checked.
type site struct {
	// given are the identities whose kubeconfigs were given.
	given []*identity
	// driver is in whose name machines are created, and looker in whose name everything else is looked at; nil for those who cannot log
	// in. They may be the same.
	driver, looker *identity
	namespace      string
	evacuation     bool
	classes        []classSite

	// What many checks look at is read once.
	kubeVirt func() (*kubevirtv1.KubeVirt, error)
	hosts    func() ([]corev1.Node, error)
	loads    func() ([]load, error)
	storages func() *storages
	quotas   func() ([]corev1.ResourceQuota, error)
	limits   func() ([]corev1.LimitRange, error)
}

// identity is one in whose name the provider cluster is asked.
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

	// secrets, image and vm are what the driver would create for the machine; image is nil for a machine that needs none.
	secrets []*corev1.Secret
	image   *cdiv1beta1.DataVolume
	vm      *kubevirtv1.VirtualMachine
}

// enter finds out who can log in, and prepares the rest.
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

		// The machines live where the driver's kubeconfig says, even if that does not get anywhere from here.
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

// checkSameCluster looks whether both identities see the same KubeVirt, as everybody who can log in may. If not, what the admin would
// see says nothing about the driver's machines.
func (s *site) checkSameCluster(ctx context.Context) []Result {
	if s.driver == nil || s.driver == s.looker {
		return nil
	}

	here, err := s.driver.getKubeVirt(ctx)
	if err != nil {
		return nil // Whether it is installed is said elsewhere.
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

// admit takes in an identity that can log in. The last one looks.
func (s *site) admit(i *identity, alone bool) {
	s.looker = i

	if i.name == Driver || alone {
		s.driver = i
	}
}

// render makes the objects of the classes' machines. A class of which that cannot be done is not checked further.
func (s *site) render(classes []Class) []Result {
	var results []Result

	for _, class := range classes {
		c := classSite{site: s, Class: class, secrets: render.Secrets(class.Machine, s.namespace)}

		var err error
		if c.vm, err = render.VirtualMachine(class.Machine, s.namespace); err == nil && class.Machine.Spec.UsesGoldenImage() {
			c.image, err = render.GoldenImage(class.Machine.Image(), s.namespace)
		}

		if err != nil {
			results = append(results, Unusable(class.Name, err.Error()))

			continue
		}

		s.classes = append(s.classes, c)
	}

	return results
}

// Unusable is the result for a class of which no machine can be made, whatever the provider cluster is like.
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

// view returns how the class is looked at.
func (c *classSite) view() view {
	return view{identity: c.looker, class: c.Name}
}

// asDriver returns how the class is looked at in the driver's name.
func (c *classSite) asDriver() view {
	return view{identity: c.driver, class: c.Name}
}

// field returns the field of the class that a field of its VirtualMachine comes from.
func (c *classSite) field(path string) string {
	return render.InTermsOfProviderSpec(path, c.Machine, c.vm)
}
