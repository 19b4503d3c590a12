package providercluster

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
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

	volumes, err := providerapi.Some[cdiv1beta1.DataVolume](ctx, c.DataVolumes(c.Namespace, "DataVolume"),
		providerapi.List{Labels: labels.Set(in.Labels).String()}, maxEvidence)
	if err != nil {
		return nil, spi.During("list DataVolumes", providerapi.Explain(err))
	}

	var (
		explanation = &spi.VolumesExplanation{Count: len(volumes)}
		r           = &reader{clients: c}
	)

	for i := range volumes {
		if volumes[i].Status.Phase == cdiv1beta1.Succeeded {
			continue
		}

		explanation.Incomplete = append(explanation.Incomplete, spi.IncompleteVolume{
			Object: volumeObject(&volumes[i]), Cause: e.explainVolume(ctx, r, &volumes[i], len(explanation.Incomplete) < maxVolumeEvents),
		})
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

	claims, err := providerapi.Some[corev1.PersistentVolumeClaim](ctx, r.clients.Kubernetes.CoreV1().PersistentVolumeClaims(r.clients.Namespace),
		providerapi.List{Labels: labels.Set{v1alpha1.TagCluster: cluster}.String()}, maxEvidence)
	if err != nil {
		r.addUnread(spi.During("list PersistentVolumeClaims", providerapi.Explain(err)))
	}

	var left []spi.IncompleteVolume

	for i := range claims {
		evidence := diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}, Claims: claims[i : i+1]}
		if cause := evidence.Cause(e.clock.Now(), e.periods); cause != nil {
			left = append(left, spi.IncompleteVolume{Object: objectOf("PersistentVolumeClaim", &claims[i], "Terminating"), Cause: cause})
		}
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
