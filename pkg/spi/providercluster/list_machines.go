package providercluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// ListMachines implements spi.PluginSPI. machine-controller-manager deletes every listed machine that it does not know, so the
// selector is never empty, and the list is read live and to its end.
func (p *Provider) ListMachines(ctx context.Context, in *spi.ListMachinesInput) ([]spi.Machine, error) {
	if !in.Identity.Valid() {
		return nil, fmt.Errorf("%w: listing machines needs both the cluster and the role tag", spi.ErrInvalid)
	}

	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	var (
		machines []spi.Machine
		uids     []types.UID
		ends     bool
		selector = render.Selector(in.Identity)
	)

	err = s.request(ctx, "list VirtualMachines in "+s.clients.Namespace, func(ctx context.Context) error {
		machines, uids = nil, nil
		ends, err = s.eachVirtualMachine(ctx, selector, func(vm metav1.Object) {
			machines = append(machines, *machineNamed(vm.GetName()))
			uids = append(uids, vm.GetUID())
		})

		return err
	})

	switch {
	case err != nil:
		return nil, err
	case !ends:
		return nil, fmt.Errorf("%w: the list of VirtualMachines in %s does not end: it has more than %d of them, more than %d pages, or a page that leads "+
			"back to itself; check what answers in place of the API server", spi.ErrUnavailable, s.clients.Namespace, maxListed, maxPages)
	}

	p.orphans.listed(s.path(selector), uids)

	return machines, nil
}

const (
	// maxListed bounds a list, in objects: no shoot has as many machines. A part of it is never used.
	maxListed = 20_000
	// maxPages bounds a list whose pages are not full, as they need not be.
	maxPages = 200
)

// errEndless ends a list that is longer than any.
var errEndless = errors.New("the list does not end")

// eachVirtualMachine visits the selected VirtualMachines, and says whether it has come to the end of them. It reads metadata only.
func (s *session) eachVirtualMachine(ctx context.Context, selector string, visit func(metav1.Object)) (ends bool, err error) {
	resource := s.clients.Metadata.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace(s.clients.Namespace)

	objects, count := 0, 0
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		page, err := resource.List(ctx, opts)
		if err != nil {
			return nil, err
		}

		objects, count = objects+len(page.Items), count+1
		if objects > maxListed || (page.Continue != "" && (count == maxPages || page.Continue == opts.Continue)) {
			return nil, errEndless
		}

		return page, nil
	})

	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(obj runtime.Object) error {
		item, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("read VirtualMachine: %w", err)
		}

		visit(item)

		return nil
	})
	if errors.Is(err, errEndless) {
		return false, nil
	}

	return true, err
}
