package infrastructure

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// sharedNetwork reads a network that other shoots may use too. Machines that use a network keep it if it was deleted,
// or is no longer offered: the health check reports it. A network of another shoot is always refused, and a deleted
// one if its checksum is not known: without it, all machines would be replaced.
func (s *shoot) sharedNetwork(ctx context.Context, shared api.SharedNetwork, i int, r *running) (api.NetworkStatus, error) {
	key := s.keyOf(shared)
	known, recorded := s.known[key.String()]

	if !recorded && !r.unrecorded && !validation.Offers(s.offered, shared, s.namespace) {
		return api.NetworkStatus{}, errorOf([]fault{notOffered(shared, i)})
	}

	network, foreign, err := s.readShared(ctx, key)
	if err != nil {
		return api.NetworkStatus{}, fmt.Errorf("%s: get NetworkAttachmentDefinition %s: %w", sharedPath(i), key, err)
	}

	status := api.NetworkStatus{Name: key.String(), Attachment: shared.Attachment}

	switch {
	case foreign || network == nil && !recorded:
		return api.NetworkStatus{}, errorOf([]fault{unusable(key, i)})
	case network == nil:
		status.SHA = known.SHA
		s.found = append(s.found, known)
	default:
		status.SHA = s.checksumOf(key.String(), configOf(network))
	}

	return status, nil
}

// checkSharedNetworks returns a fault for each shared network that the shoot could not use if it were new.
func (s *shoot) checkSharedNetworks(ctx context.Context) []fault {
	var faults []fault

	for i, shared := range s.config.Networks.SharedNetworks {
		if !validation.Offers(s.offered, shared, s.namespace) {
			faults = append(faults, notOffered(shared, i))

			continue
		}

		if network, foreign, err := s.readShared(ctx, s.keyOf(shared)); s.note(err) == nil && (network == nil || foreign) {
			faults = append(faults, unusable(s.keyOf(shared), i))
		}
	}

	return faults
}

func (s *shoot) keyOf(shared api.SharedNetwork) client.ObjectKey {
	key := client.ObjectKey{Namespace: shared.Namespace, Name: shared.Name}
	if key.Namespace == "" {
		key.Namespace = s.namespace
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
		"the shoot cannot use NetworkAttachmentDefinition %s of the provider cluster: it does not exist, the account of the kubeconfig may not get it, or it belongs to another shoot; "+
			"create it, or correct its name and namespace, or grant get for it (extension/kubernetes/shared-networks)", key)}
}

// readShared reads a network, and whether it belongs to another shoot. It returns nil for a network that does not
// exist, or that the account may not read.
func (s *shoot) readShared(ctx context.Context, key client.ObjectKey) (network *unstructured.Unstructured, foreign bool, _ error) {
	network = networkAttachmentDefinition()

	err := s.provider.Get(ctx, key, network)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, false, nil
	}

	if err != nil || s.isForeign(network) {
		return network, err == nil, err
	}

	foreign, err = s.inForeignNamespace(ctx, key.Namespace)

	return network, foreign, err
}

// isForeign reports whether an object is labelled for another shoot.
func (s *shoot) isForeign(object client.Object) bool {
	return object.GetLabels()[kubevirt.LabelShoot] != "" && !s.owner.Owns(object)
}

// inForeignNamespace reports whether a namespace was created for another shoot. Only accounts that create
// namespaces may read networks in them.
func (s *shoot) inForeignNamespace(ctx context.Context, name string) (bool, error) {
	if !s.createsNamespace() || name == s.namespace {
		return false, nil
	}

	namespace := &corev1.Namespace{}

	err := s.provider.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}

	return err == nil && s.isForeign(namespace), err
}
