// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// sharedNetwork reads a network that other shoots may use too. Machines that use a network keep it if it was deleted,
// or is no longer offered: the health check reports it. A network of another shoot is always refused, and a deleted
// one if its checksum is not known: without it, all machines would be replaced.
func (f *flow) sharedNetwork(ctx context.Context, shared api.SharedNetwork, i int, r *running) (api.NetworkStatus, error) {
	key := f.keyOf(shared)
	known, recorded := f.known[key.String()]

	if !recorded && !r.unrecorded && !validation.Offers(f.profile.SharedNetworks, shared, f.namespace) {
		return api.NetworkStatus{}, errorOf([]fault{notOffered(shared, i)})
	}

	network, foreign, err := f.readShared(ctx, key)
	if err != nil {
		return api.NetworkStatus{}, fmt.Errorf("%s: get NetworkAttachmentDefinition %s: %w", sharedPath(i), key, err)
	}

	status := api.NetworkStatus{Name: key.String(), Attachment: shared.Attachment}

	switch {
	case foreign || network == nil && !recorded:
		return api.NetworkStatus{}, errorOf([]fault{unusable(key, i)})
	case network == nil:
		status.SHA = known.SHA
		f.found = append(f.found, known)
	default:
		status.SHA = f.checksumOf(key.String(), configOf(network))
	}

	return status, nil
}

// checkSharedNetworks returns a fault for each shared network that the shoot could not use if it were new.
func (f *flow) checkSharedNetworks(ctx context.Context) []fault {
	var faults []fault

	for i, shared := range f.config.Networks.SharedNetworks {
		if !validation.Offers(f.profile.SharedNetworks, shared, f.namespace) {
			faults = append(faults, notOffered(shared, i))

			continue
		}

		if network, foreign, err := f.readShared(ctx, f.keyOf(shared)); f.note(err) == nil && (network == nil || foreign) {
			faults = append(faults, unusable(f.keyOf(shared), i))
		}
	}

	return faults
}

func (f *flow) keyOf(shared api.SharedNetwork) client.ObjectKey {
	key := client.ObjectKey{Namespace: shared.Namespace, Name: shared.Name}
	if key.Namespace == "" {
		key.Namespace = f.namespace
	}

	return key
}

func sharedPath(i int) *field.Path {
	return configPath().Child("networks", "sharedNetworks").Index(i)
}

func notOffered(shared api.SharedNetwork, i int) fault {
	return fault{gardencorev1beta1.ErrorRetryableConfigurationProblem, sharedPath(i), validation.NotOffered(shared)}
}

// unusable is the fault of a network that does not exist, that the account may not read, or that belongs to
// another shoot. It does not distinguish them: a user must not learn which networks exist.
func unusable(key client.ObjectKey, i int) fault {
	return fault{gardencorev1beta1.ErrorRetryableConfigurationProblem, sharedPath(i), fmt.Sprintf(
		"the shoot cannot use NetworkAttachmentDefinition %s of the provider cluster: it does not exist, the kubeconfig's user may not get it or its UserDefinedNetwork, or it belongs to another shoot; "+
			"create it, or correct its name and namespace, or grant get for it (extension/kubernetes/shared-networks)", key)}
}

// readShared reads a network, and whether it belongs to another shoot. It returns nil for a network that does not
// exist, or that the account may not read.
func (f *flow) readShared(ctx context.Context, key client.ObjectKey) (network *unstructured.Unstructured, foreign bool, _ error) {
	network = networkAttachmentDefinition()

	err := f.provider.Get(ctx, key, network)
	if err == nil && !f.isForeign(network) {
		foreign, err = f.hasForeignSource(ctx, network)
	}

	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, false, nil
	}

	if err != nil || foreign || f.isForeign(network) {
		return network, err == nil, err
	}

	foreign, err = f.inForeignNamespace(ctx, key.Namespace)

	return network, foreign, err
}

// hasForeignSource reports whether OVN-Kubernetes created a network for the UserDefinedNetwork of another shoot: it does not
// copy the labels.
func (f *flow) hasForeignSource(ctx context.Context, network *unstructured.Unstructured) (bool, error) {
	reference := sourceOf(network)
	if reference == nil {
		return false, nil
	}

	source := newObject(providercluster.UserDefinedNetwork, network.GetNamespace(), reference.Name, nil)
	err := f.provider.Get(ctx, client.ObjectKeyFromObject(source), source)

	return err == nil && f.isForeign(source), err
}

// sourceOf returns the UserDefinedNetwork for which OVN-Kubernetes created a network; nil if there is none.
func sourceOf(network client.Object) *metav1.OwnerReference {
	kind := providercluster.UserDefinedNetwork

	for _, owner := range network.GetOwnerReferences() {
		if owner.Kind == kind.Kind && strings.HasPrefix(owner.APIVersion, kind.Group+"/") {
			return &owner
		}
	}

	return nil
}

// isForeign reports whether an object is labelled for another shoot.
func (f *flow) isForeign(object client.Object) bool {
	return object.GetLabels()[kubevirt.LabelShoot] != "" && !f.owner.Owns(object)
}

// inForeignNamespace reports whether a namespace was created for another shoot. Only accounts that create
// namespaces may read networks in them.
func (f *flow) inForeignNamespace(ctx context.Context, name string) (bool, error) {
	if !f.createsNamespace() || name == f.namespace {
		return false, nil
	}

	namespace := &corev1.Namespace{}

	err := f.provider.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}

	return err == nil && f.isForeign(namespace), err
}
