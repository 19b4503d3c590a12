package providercluster

import (
	"context"
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
		selector = render.Selector(in.Identity)
	)

	err = s.request(ctx, "list VirtualMachines in "+s.clients.Namespace, func(ctx context.Context) error {
		machines, uids = nil, nil

		return s.eachVirtualMachine(ctx, selector, func(vm metav1.Object) {
			machines = append(machines, *machineNamed(vm.GetName()))
			uids = append(uids, vm.GetUID())
		})
	})
	if err != nil {
		return nil, err
	}

	p.orphans.listed(s.path(selector), uids)

	return machines, nil
}

// eachVirtualMachine visits the selected VirtualMachines. It reads metadata only.
func (s *session) eachVirtualMachine(ctx context.Context, selector string, visit func(metav1.Object)) error {
	resource := s.clients.Metadata.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace(s.clients.Namespace)

	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return resource.List(ctx, opts)
	})

	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(obj runtime.Object) error {
		item, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("read VirtualMachine: %w", err)
		}

		visit(item)

		return nil
	})
}
