// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

	for _, tenant := range f.config.Networks.TenantNetworks {
		name := f.owner.TechnicalID + "-" + tenant.Name
		if err := f.reconcileNetwork(ctx, name, tenant.Config); err != nil {
			return nil, err
		}

		desired.Insert(name)

		status := api.NetworkStatus{Name: f.namespace + "/" + name, Default: tenant.Default, Attachment: tenant.Attachment}
		status.SHA = f.checksumOf(status.Name, tenant.Config)
		networks = append(networks, status)
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

// reconcileNetwork writes one tenant network, if it differs.
func (f *flow) reconcileNetwork(ctx context.Context, name, config string) error {
	network := networkAttachmentDefinition()
	key := client.ObjectKey{Namespace: f.namespace, Name: name}

	err := f.provider.Get(ctx, key, network)
	if apierrors.IsNotFound(err) {
		network = networkAttachmentDefinition()
		network.SetNamespace(f.namespace)
		network.SetName(name)
		network.SetLabels(f.owner.Labels())
		setConfig(network, config)

		return wrap(explain(f.provider.Create(ctx, network)), "create NetworkAttachmentDefinition %s", key)
	}

	if err != nil {
		return wrap(explain(err), "get NetworkAttachmentDefinition %s", key)
	}

	if err := f.owner.Check("NetworkAttachmentDefinition "+key.String(), network); err != nil {
		return fmt.Errorf("%w, or choose another name in the Shoot", err)
	}

	if !f.owner.Adopt(network) && configOf(network) == config {
		return nil
	}

	setConfig(network, config)

	return wrap(f.provider.Update(ctx, network), "update NetworkAttachmentDefinition %s", key)
}

// deleteNetworks deletes the tenant networks except the desired ones. It keeps those of existing virtual
// machines, which could not restart without them, and returns their names: a later reconciliation
// deletes them.
func (f *flow) deleteNetworks(ctx context.Context, desired sets.Set[string]) (kept []string, _ error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(providercluster.NetworkAttachmentDefinition)

	existing, err := providercluster.Collect(ctx, f.provider, list, func(n *unstructured.Unstructured) (metav1.PartialObjectMetadata, bool) {
		return providercluster.Metadata(providercluster.NetworkAttachmentDefinition, n), true
	}, client.InNamespace(f.namespace), f.owner.Selector())
	if nothingThere(err, len(f.config.Networks.TenantNetworks) > 0) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("list NetworkAttachmentDefinitions: %w", err)
	}

	var used sets.Set[string]

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
			return nil, fmt.Errorf("delete NetworkAttachmentDefinition %s: %w", client.ObjectKeyFromObject(network), err)
		}
	}

	return kept, nil
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

func setConfig(network *unstructured.Unstructured, config string) {
	network.Object["spec"] = map[string]any{"config": config}
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

// explain adds a remedy to the error of an API server without Multus.
func explain(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == "") {
		return fmt.Errorf("the CustomResourceDefinition of NetworkAttachmentDefinitions is not installed in the provider cluster; install Multus, or remove the networks: %w", err)
	}

	return err
}
