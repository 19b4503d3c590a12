// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// object is an object of a network.
type object struct {
	kind schema.GroupVersionKind
	name string
}

// reconcileNetworks creates and updates the tenant networks, deletes those that left the
// configuration, and reads the shared networks. It returns all networks in the order of the
// machines' interfaces.
func (f *flow) reconcileNetworks(ctx context.Context, r *running) ([]api.NetworkStatus, error) {
	var networks []api.NetworkStatus

	desired := sets.New[object]()

	for i := range f.config.Networks.TenantNetworks {
		for _, o := range f.networkObjects(&f.config.Networks.TenantNetworks[i]) {
			desired.Insert(object{o.GroupVersionKind(), o.GetName()})
		}
	}

	kept, err := f.deleteNetworks(ctx, desired)
	if err != nil {
		return nil, err
	}

	for i := range f.config.Networks.TenantNetworks {
		network, err := f.reconcileTenantNetwork(ctx, i, r, kept)
		if err != nil {
			return nil, err
		}

		networks = append(networks, network)
	}

	for i, shared := range f.config.Networks.SharedNetworks {
		network, err := f.sharedNetwork(ctx, shared, i, r)
		if err != nil {
			return nil, err
		}

		networks = append(networks, network)
	}

	return networks, nil
}

// reconcileTenantNetwork writes the objects of the tenant network with an index. kept are the objects of other networks, or
// of another type of this one, that machines still use.
func (f *flow) reconcileTenantNetwork(ctx context.Context, i int, r *running, kept []object) (api.NetworkStatus, error) {
	tenant := &f.config.Networks.TenantNetworks[i]
	name := f.networkName(tenant)
	status := api.NetworkStatus{Name: f.namespace + "/" + name, Default: tenant.Default, Attachment: tenant.Attachment}
	_, recorded := f.known[status.Name]

	if !r.unrecorded {
		if faults := f.checkTenantNetwork(i); len(faults) > 0 {
			return status, errorOf(faults)
		}
	}

	if slices.ContainsFunc(kept, func(o object) bool { return o.name == name || o.name == f.clusterName(name) }) {
		return status, errorOf([]fault{{
			gardencorev1beta1.ErrorConfigurationProblem, tenantPath(i),
			"machines still use a network of another type with this name; use another name, or wait until they are replaced",
		}})
	}

	if faults, err := f.checkDerived(ctx, i); err != nil || len(faults) > 0 {
		return status, errors.Join(err, errorOf(faults))
	}

	for _, object := range f.networkObjects(tenant) {
		actual, err := f.reconcileNetworkObject(ctx, i, object)
		if err != nil {
			return status, err
		}

		// Machines that use the network may run: the health check reports it.
		if faults := checkReady(i, actual); len(faults) > 0 && !recorded {
			return status, errorOf(faults)
		}
	}

	status.SHA = f.checksumOf(status.Name, contentOf(tenant))

	return status, nil
}

// reconcileNetworkObject writes an object of the tenant network with an index, if it does not exist, or if its CNI
// configuration differs. It returns the object.
func (f *flow) reconcileNetworkObject(ctx context.Context, i int, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key := client.ObjectKeyFromObject(desired)
	description := desired.GetKind() + " " + strings.TrimPrefix(key.String(), "/")

	actual := &unstructured.Unstructured{}
	actual.SetGroupVersionKind(desired.GroupVersionKind())

	err := f.provider.Get(ctx, key, actual)
	if apierrors.IsNotFound(err) {
		desired.SetLabels(f.owner.Labels())

		return desired, wrap(explain(f.provider.Create(ctx, desired), desired.GroupVersionKind()), "create %s", description)
	}

	if err != nil {
		return nil, wrap(explain(err, desired.GroupVersionKind()), "get %s", description)
	}

	if sourceOf(actual) != nil {
		return nil, errorOf([]fault{taken(i, actual)})
	}

	if err := f.owner.Check(description, actual); err != nil {
		return nil, fmt.Errorf("%w, or choose another name in the Shoot", err)
	}

	changed := false

	if f.config.Networks.TenantNetworks[i].Type() != api.TenantNetworkConfig {
		if faults := checkRange(i, actual, desired); len(faults) > 0 {
			return nil, errorOf(faults)
		}
	} else if config := configOf(desired); configOf(actual) != config {
		setConfig(actual, config)

		changed = true
	}

	if adopted := f.owner.Adopt(actual); !adopted && !changed {
		return actual, nil
	}

	return actual, wrap(f.provider.Update(ctx, actual), "update %s", description)
}

// deleteNetworks deletes the objects of tenant networks except the desired ones. It keeps those of existing virtual
// machines, which could not restart without them, and returns them: a later reconciliation deletes them.
func (f *flow) deleteNetworks(ctx context.Context, desired sets.Set[object]) (kept []object, _ error) {
	var used sets.Set[string]

	for _, kind := range f.networkKinds() {
		existing, err := f.existingNetworks(ctx, kind)
		if err != nil {
			return nil, err
		}

		for i := range existing {
			network := &existing[i]
			if !f.owner.Owns(network) {
				continue
			}

			// Until a later reconciliation finds none, objects may exist.
			f.remaining = append(f.remaining, typeOf(kind))

			found := object{kind, network.GetName()}
			if desired.Has(found) {
				continue
			}

			if used == nil {
				if used, err = f.usedNetworks(ctx); err != nil {
					return nil, err
				}
			}

			if used.Has(found.name) {
				kept = append(kept, found)

				continue
			}

			if err := f.provider.Delete(ctx, network); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("delete %s %s: %w", kind.Kind, network.GetName(), err)
			}
		}
	}

	return kept, nil
}

// existingNetworks returns the objects of a kind with the label of the shoot.
func (f *flow) existingNetworks(ctx context.Context, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)

	options := []client.ListOption{f.owner.Selector()}
	if isNamespaced(kind) {
		options = append(options, client.InNamespace(f.namespace))
	}

	existing, err := providercluster.Collect(ctx, f.provider, list, func(n *unstructured.Unstructured) (metav1.PartialObjectMetadata, bool) {
		return providercluster.Metadata(kind, n), true
	}, options...)
	if nothingThere(err, isVirtual(typeOf(kind)) || len(f.config.Networks.TenantNetworks) > 0) {
		return nil, nil
	}

	return existing, wrap(err, "list objects of kind %s", kind.Kind)
}

// nothingThere reports whether a list error means that the shoot has no such objects: the provider
// cluster does not serve the kind, or the shoot does not use it and its account lacks permission.
func nothingThere(err error, used bool) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !used
}

// usedNetworks returns the networks that machines and bastions of the shoot use, by the names of all their objects.
func (f *flow) usedNetworks(ctx context.Context) (sets.Set[string], error) {
	used := sets.New[string]()

	for _, kind := range [][]client.ListOption{
		{client.MatchingLabels{providerspec.TagCluster: f.owner.TechnicalID}},
		{f.owner.Selector(), client.HasLabels{kubevirt.LabelBastion}},
	} {
		found, err := providercluster.Collect(ctx, f.provider, &kubevirtv1.VirtualMachineList{}, func(machine *kubevirtv1.VirtualMachine) ([]string, bool) {
			return f.networksOf(machine), !f.owner.IsForeign(machine)
		}, append(kind, client.InNamespace(f.namespace))...)
		if err != nil {
			return nil, fmt.Errorf("list VirtualMachines: %w", err)
		}

		for _, name := range slices.Concat(found...) {
			used.Insert(name, f.clusterName(name))
		}
	}

	return used, nil
}

// networksOf returns the networks in the namespace of the shoot that a virtual machine uses.
func (f *flow) networksOf(machine *kubevirtv1.VirtualMachine) []string {
	if machine.Spec.Template == nil {
		return nil
	}

	var names []string

	for _, network := range machine.Spec.Template.Spec.Networks {
		if network.Multus != nil {
			names = append(names, nameIn(f.namespace, network.Multus.NetworkName))
		}
	}

	return names
}

func networkAttachmentDefinition() *unstructured.Unstructured {
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(providercluster.NetworkAttachmentDefinition)

	return network
}

// configOf returns the CNI configuration of a network.
func configOf(network *unstructured.Unstructured) string {
	config, _, _ := unstructured.NestedString(network.Object, "spec", "config")

	return config
}

func setConfig(network *unstructured.Unstructured, config string) {
	_ = unstructured.SetNestedField(network.Object, config, "spec", "config") // A spec that is no object is refused.
}

// nameIn returns the name of a network in a namespace; empty if it is in another one.
func nameIn(namespace, network string) string {
	of, name, found := strings.Cut(network, "/")

	switch {
	case !found:
		return network
	case of == namespace:
		return name
	default:
		return ""
	}
}

// explain adds a remedy to the error of an API server without the kind of a network.
func explain(err error, kind schema.GroupVersionKind) error {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || !apierrors.IsNotFound(err) || status.Status().Details != nil && status.Status().Details.Name != "" {
		return err
	}

	if kind == providercluster.NetworkAttachmentDefinition {
		return fmt.Errorf("the CustomResourceDefinition of NetworkAttachmentDefinitions is not installed in the provider cluster; install Multus, or remove the networks: %w", err)
	}

	return fmt.Errorf("the provider cluster has no %s of %s; use a network of its network plugin: %w", kind.Kind, kind.Group, err)
}
