// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package shoot is the webhook for objects in the shoots: it keeps PersistentVolumes in the zones of
// their StorageClass. The API servers of the shoots call it for objects that users of the shoots write.
// Therefore it never denies a request, and reads objects of the seed once in ten seconds for each API
// server. Package server bounds the requests. The package must not call a provider cluster or a shoot.
package shoot

import (
	"context"
	"net/http" //nolint:depguard // of the requests to the webhook server; the package does not call a provider cluster
	"strings"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/extensions/pkg/webhook/shoot"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// csiDriver is the name of KubeVirt's CSI driver.
	csiDriver = "csi.kubevirt.io"
	// attacherFinalizer begins the name of the finalizer that csi-attacher adds to a PersistentVolume
	// before it attaches it for the first time. It removes the finalizer from deleted ones only.
	attacherFinalizer = "external-attacher/"
	// timeoutSeconds bounds the time for which an extension that does not respond delays a change of a
	// PersistentVolume. A response takes milliseconds.
	timeoutSeconds = 5
)

// AddToManager creates the webhook.
func AddToManager(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	webhook, err := shoot.New(mgr, shoot.Args{
		Types:   []extensionswebhook.Type{{Obj: &corev1.PersistentVolume{}}},
		Mutator: &mutator{classes: newClasses(mgr.GetClient(), mgr.GetLogger().WithName("shoot-webhook"))},
		// Volumes of a shoot do not depend on the extension. If it is down when a volume is created, the
		// volume gets its node affinity when it is attached for the first time.
		FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
	})
	if err != nil {
		return nil, err
	}

	webhook.TimeoutSeconds = ptr.To[int32](timeoutSeconds)
	webhook.Webhook.WithContextFunc = withSender

	return webhook, nil
}

// withSender adds the address of the API server that sent a request to its context.
func withSender(ctx context.Context, request *http.Request) context.Context {
	return context.WithValue(ctx, extensionswebhook.RemoteAddrContextKey{}, request.RemoteAddr)
}

// mutator changes the objects.
type mutator struct {
	classes *classes
}

// Mutate implements extensionswebhook.Mutator. It returns no error: Gardener's library responds to one
// with a denial, to which the failure policy does not apply.
func (m *mutator) Mutate(ctx context.Context, newObj, oldObj client.Object) error {
	volume, ok := newObj.(*corev1.PersistentVolume)
	if !ok || !lacksAffinity(volume) || wasAttached(oldObj) {
		return nil
	}

	zones := m.classes.zonesOf(ctx, volume.Spec.StorageClassName)
	if len(zones) > 0 {
		volume.Spec.NodeAffinity = affinityTo(zones)
	}

	return nil
}

// lacksAffinity reports whether the PersistentVolume is one of KubeVirt's CSI driver, with a
// StorageClass, and without a node affinity.
func lacksAffinity(volume *corev1.PersistentVolume) bool {
	return volume.Spec.CSI != nil && volume.Spec.CSI.Driver == csiDriver && volume.Spec.StorageClassName != "" &&
		volume.Spec.NodeAffinity == nil && volume.DeletionTimestamp == nil
}

// wasAttached reports whether csi-attacher has ever attached the PersistentVolume. The StorageClass of
// such a volume may have had other zones, or another class of the provider cluster, when the volume was
// created, and a node affinity cannot be changed.
func wasAttached(object client.Object) bool {
	if object == nil {
		return false
	}

	for _, finalizer := range object.GetFinalizers() {
		if strings.HasPrefix(finalizer, attacherFinalizer) {
			return true
		}
	}

	return false
}

// affinityTo returns the affinity to the Nodes in the zones.
func affinityTo(zones []string) *corev1.VolumeNodeAffinity {
	inZones := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}

	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{inZones}}},
	}}
}
