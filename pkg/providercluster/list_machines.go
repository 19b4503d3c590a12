// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// ListMachines implements spi.PluginSPI. machine-controller-manager deletes every listed machine
// that has no Machine, so the selector is never empty, and the list is complete and not from a
// cache.
func (m *Machines) ListMachines(ctx context.Context, in *spi.ListMachinesInput) ([]spi.Machine, error) {
	if !in.Identity.Valid() {
		return nil, spi.Errorf(spi.ErrInvalid, "the list of machines requires both the cluster and the role tag")
	}

	// The class exists, whether its kubeconfig is usable or not.
	class := classOf(in.Identity, in.Class, in.Image)
	m.images.RegisterClass(class)

	c, err := m.clients.For(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	// The metadata suffice.
	metadata := c.Metadata.Resource(kubevirtv1.GroupVersion.WithResource("virtualmachines")).Namespace(c.Namespace)

	found, err := providerapi.Collect(ctx, c, metadata, providerapi.List{
		Description: "VirtualMachines in " + c.Namespace,
		Labels:      render.Selector(in.Identity),
	}, func(vm metav1.Object) (listed, bool) {
		return listed{name: vm.GetName(), uid: vm.GetUID()}, !v1alpha1.IsOfOtherShoot(vm.GetLabels(), in.Class.ShootUID)
	})
	if err != nil {
		return nil, err
	}

	var machines []spi.Machine

	for _, vm := range found {
		machine := newMachine(vm.name)
		machine.Address = addressOf(c, in.Identity, vm.uid)
		machines = append(machines, *machine)
		m.recordListing(caller.Of(ctx), keyOf(c, vm.name, vm.uid))
	}

	m.images.MachinesListed(ctx, c, class)

	return machines, nil
}

// listed is the part of a listed VirtualMachine that is kept.
type listed struct {
	name string
	uid  types.UID
}
