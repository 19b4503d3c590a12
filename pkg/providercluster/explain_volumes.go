// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxVolumeEvents bounds the volumes whose events are read: an obstacle usually affects all volumes of
// a storage class.
const maxVolumeEvents = 5

// ExplainVolumes implements spi.VolumesExplainer.
func (e *Explainer) ExplainVolumes(ctx context.Context, in *spi.ExplainVolumesInput) (*spi.VolumesExplanation, error) {
	c, err := e.clients.For(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	// Of complete volumes, nothing is kept.
	volumes, err := providerapi.Collect(ctx, c, c.DataVolumes(c.Namespace, "DataVolume"),
		providerapi.List{Description: "DataVolumes in " + c.Namespace, Labels: labels.Set(in.Labels).String()},
		func(dv *cdiv1beta1.DataVolume) (*cdiv1beta1.DataVolume, bool) {
			if dv.Status.Phase == cdiv1beta1.Succeeded {
				return nil, true
			}

			return dv, true
		})
	if err != nil {
		return nil, err
	}

	var (
		explanation = &spi.VolumesExplanation{Count: len(volumes)}
		r           = &reader{clients: c}
	)

	for _, dv := range volumes {
		if dv != nil {
			explanation.Incomplete = append(explanation.Incomplete, spi.IncompleteVolume{
				Object: volumeObject(dv),
				Cause:  e.explainVolume(ctx, r, dv, len(explanation.Incomplete) < maxVolumeEvents),
			})
		}
	}

	explanation.Incomplete = append(explanation.Incomplete, e.explainLeftClaims(ctx, r, in.Cluster)...)
	explanation.Unread = r.unread

	return explanation, nil
}

// explainLeftClaims returns the claims of a shoot's machines that still exist long after their deletion.
// The driver's Role does not permit to list claims: they are read only with other credentials, such as an
// administrator's.
func (e *Explainer) explainLeftClaims(ctx context.Context, r *reader, cluster string) []spi.IncompleteVolume {
	if cluster == "" || !r.mayList(ctx, &authorizationv1.ResourceAttributes{Namespace: r.clients.Namespace, Resource: "persistentvolumeclaims"}) {
		return nil
	}

	found, err := providerapi.Leftovers(ctx, r.clients, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		labels.Set{v1alpha1.TagCluster: cluster}.String(), e.clock.Now())
	if err != nil {
		r.addUnread(err)
	}

	left := make([]spi.IncompleteVolume, len(found))

	for i := range found {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: found[i]}
		evidence := diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}, Claims: []corev1.PersistentVolumeClaim{claim}}
		left[i] = spi.IncompleteVolume{Object: objectOf("PersistentVolumeClaim", &claim, "Terminating"), Cause: evidence.Cause(e.clock.Now(), e.periods)}
	}

	return left
}

// explainVolume diagnoses a volume as if it were the only one of a machine.
func (e *Explainer) explainVolume(ctx context.Context, r *reader, dv *cdiv1beta1.DataVolume, withEvents bool) *spi.Cause {
	evidence := diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}, DataVolumes: []cdiv1beta1.DataVolume{*dv}, WithStalls: true}
	if withEvents {
		r.readVolume(ctx, dv, &evidence)
	}

	cause := evidence.Cause(e.clock.Now(), e.periods)
	if cause != nil && cause.Err.Reason == diagnose.DataVolumeFailed { // The machine stays.
		cause.Err.Remedy = "delete the PersistentVolumeClaim of the shoot that this volume belongs to, and create it again"
	}

	return cause
}
