// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// reconcileNetworks creates and updates the tenant networks, deletes those that left the
// configuration, and reads the shared networks. It returns all networks in the order of the
// machines' interfaces.
func (f *flow) reconcileNetworks(ctx context.Context, r *running) ([]api.NetworkStatus, error) {
	var networks []api.NetworkStatus

	desired := sets.New[string]()

	for i := range f.config.Networks.TenantNetworks {
		network, err := f.reconcileTenantNetwork(ctx, i, r)
		if err != nil {
			return nil, err
		}

		desired.Insert(nameIn(f.namespace, network.Name))
		networks = append(networks, network)
	}

	if _, err := f.deleteNetworks(ctx, desired); err != nil {
		return nil, err
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

// reconcileTenantNetwork writes the objects of the tenant network with an index.
func (f *flow) reconcileTenantNetwork(ctx context.Context, i int, r *running) (api.NetworkStatus, error) {
	tenant := &f.config.Networks.TenantNetworks[i]
	name := f.owner.TechnicalID + "-" + tenant.Name
	status := api.NetworkStatus{Name: f.namespace + "/" + name, Default: tenant.Default, Attachment: tenant.Attachment}

	if _, recorded := f.known[status.Name]; !recorded && !r.unrecorded {
		if faults := f.checkTenantNetwork(i); len(faults) > 0 {
			return status, errorOf(faults)
		}
	}

	for _, object := range networkObjects(tenant, f.namespace, name) {
		if err := f.reconcileNetworkObject(ctx, object); err != nil {
			return status, err
		}
	}

	status.SHA = f.checksumOf(status.Name, contentOf(tenant))

	return status, nil
}

// reconcileNetworkObject writes an object of a tenant network, if a field of its spec differs.
func (f *flow) reconcileNetworkObject(ctx context.Context, desired *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(desired)
	description := desired.GetKind() + " " + strings.TrimPrefix(key.String(), "/")

	actual := &unstructured.Unstructured{}
	actual.SetGroupVersionKind(desired.GroupVersionKind())

	err := f.provider.Get(ctx, key, actual)
	if apierrors.IsNotFound(err) {
		desired.SetLabels(f.owner.Labels())

		return wrap(explain(f.provider.Create(ctx, desired), desired.GroupVersionKind()), "create %s", description)
	}

	if err != nil {
		return wrap(explain(err, desired.GroupVersionKind()), "get %s", description)
	}

	if err := f.owner.Check(description, actual); err != nil {
		return fmt.Errorf("%w, or choose another name in the Shoot", err)
	}

	if !setSpec(actual, desired) && !f.owner.Adopt(actual) {
		return nil
	}

	f.owner.Adopt(actual)

	return wrap(f.provider.Update(ctx, actual), "update %s", description)
}

// setSpec sets the fields of the desired spec: network plugins add others. It reports whether it changed the object.
func setSpec(actual, desired *unstructured.Unstructured) (changed bool) {
	fields, _, _ := unstructured.NestedMap(desired.Object, "spec")

	for field, value := range fields {
		if old, _, _ := unstructured.NestedFieldNoCopy(actual.Object, "spec", field); equality.Semantic.DeepEqual(old, value) {
			continue
		}

		_ = unstructured.SetNestedField(actual.Object, value, "spec", field) // A spec that is no object is refused.
		changed = true
	}

	return changed
}

// deleteNetworks deletes the objects of tenant networks except the desired ones. It keeps those of existing virtual
// machines, which could not restart without them, and returns their names: a later reconciliation
// deletes them.
func (f *flow) deleteNetworks(ctx context.Context, desired sets.Set[string]) (kept []string, _ error) {
	var used sets.Set[string]

	for _, kind := range f.networkKinds() {
		existing, err := f.existingNetworks(ctx, kind)
		if err != nil {
			return nil, err
		}

		for i := range existing {
			network := &existing[i]
			if desired.Has(network.GetName()) || !f.owner.Owns(network) {
				continue
			}

			if used == nil {
				if used, err = f.usedNetworks(ctx); err != nil {
					return nil, err
				}
			}

			if used.Has(network.GetName()) {
				kept = append(kept, network.GetName())

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
	if nothingThere(err, len(f.config.Networks.TenantNetworks) > 0) {
		return nil, nil
	}

	return existing, wrap(err, "list objects of kind %s", kind.Kind)
}

// nothingThere reports whether a list error means that the shoot has no such objects: the provider
// cluster does not serve the kind, or the shoot does not use it and its account lacks permission.
func nothingThere(err error, used bool) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !used
}

// usedNetworks returns the networks that virtual machines of the shoot use.
func (f *flow) usedNetworks(ctx context.Context) (sets.Set[string], error) {
	ofMachines, err := providercluster.Collect(ctx, f.provider, &kubevirtv1.VirtualMachineList{}, func(machine *kubevirtv1.VirtualMachine) ([]string, bool) {
		return f.networksOf(machine), !f.owner.IsForeign(machine)
	}, client.InNamespace(f.namespace), client.MatchingLabels{providerspec.TagCluster: f.owner.TechnicalID})

	return sets.New(slices.Concat(ofMachines...)...), wrap(err, "list VirtualMachines")
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
