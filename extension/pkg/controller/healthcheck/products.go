package healthcheck

import (
	"cmp"
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// product is KubeVirt or CDI. Its operator reports the state of an installation as conditions.
type product struct {
	name string
	// describe is the command that shows the operator's report.
	describe string
	// list is the list of installations, and conditions returns those of each.
	list       client.ObjectList
	conditions func() [][]metav1.Condition
}

// maxInstallations bounds the installations that a check reads. A cluster has one, and possibly others
// that the operator rejected.
const maxInstallations = 10

func kubeVirt() product {
	list := &kubevirtv1.KubeVirtList{}

	return product{
		name:     "KubeVirt",
		describe: "kubectl describe kubevirts --all-namespaces",
		list:     list,
		conditions: func() [][]metav1.Condition {
			all := make([][]metav1.Condition, len(list.Items))

			for i := range list.Items {
				for _, c := range list.Items[i].Status.Conditions {
					all[i] = append(all[i], metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Message: c.Message})
				}
			}

			return all
		},
	}
}

func cdi() product {
	list := &cdiv1beta1.CDIList{}

	return product{
		name:     "CDI",
		describe: "kubectl describe cdis",
		list:     list,
		conditions: func() [][]metav1.Condition {
			all := make([][]metav1.Condition, len(list.Items))

			for i := range list.Items {
				for _, c := range list.Items[i].Status.Conditions {
					all[i] = append(all[i], metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Message: c.Message})
				}
			}

			return all
		},
	}
}

// check returns an error if the product is not available, or if its state cannot be read.
func (p product) check(ctx context.Context, provider *providercluster.Cluster) error {
	if err := provider.List(ctx, p.list, client.Limit(maxInstallations)); err != nil {
		return providercluster.WithRemedy(fmt.Errorf("read the state of %s: %w", p.name, err))
	}

	cause, unavailable := unavailability(p.conditions())
	if !unavailable {
		return nil
	}

	return v1beta1helper.NewErrorWithCodes(
		fmt.Errorf("%s of the provider cluster is not available: %s; repair it, see %s", p.name, excerpt(cause), p.describe),
		gardencorev1beta1.ErrorRetryableInfraDependencies,
	)
}

// unavailability reports whether no installation is available, and why. An installation whose operator
// does not report the condition counts as available. One available installation is enough: CDI's
// operator rejects duplicates, and reports them as not available.
func unavailability(installations [][]metav1.Condition) (cause string, unavailable bool) {
	for _, conditions := range installations {
		available := meta.FindStatusCondition(conditions, "Available")
		if available == nil || available.Status == metav1.ConditionTrue {
			return "", false
		}

		cause = cmp.Or(cause, available.Message)

		// CDI's operator reports the cause here.
		if degraded := meta.FindStatusCondition(conditions, "Degraded"); degraded != nil && degraded.Status == metav1.ConditionTrue {
			cause = cmp.Or(cause, degraded.Message)
		}
	}

	return cmp.Or(cause, "its operator reports no cause"), len(installations) > 0
}
