// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"context"
	"encoding/json"
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
	// list is the list of installations.
	list client.ObjectList
}

// maxInstallations bounds the installations that a check reads. A cluster has one, and possibly others
// that the operator rejected.
const maxInstallations = 10

func kubeVirt() product {
	return product{name: "KubeVirt", describe: "kubectl describe kubevirts --all-namespaces", list: &kubevirtv1.KubeVirtList{}}
}

func cdi() product {
	return product{name: "CDI", describe: "kubectl describe cdis", list: &cdiv1beta1.CDIList{}}
}

// conditions returns the conditions of each installation. The types of both products have the JSON fields of
// metav1.Condition.
func (p product) conditions() (all [][]metav1.Condition, err error) {
	var installations struct {
		Items []struct {
			Status struct{ Conditions []metav1.Condition }
		}
	}

	raw, err := json.Marshal(p.list)
	if err == nil {
		err = json.Unmarshal(raw, &installations)
	}

	for _, i := range installations.Items {
		all = append(all, i.Status.Conditions)
	}

	return all, err
}

// check returns an error if the product is not available, or if its state cannot be read.
func (p product) check(ctx context.Context, provider *providercluster.Cluster) error {
	if err := provider.List(ctx, p.list, client.Limit(maxInstallations)); err != nil {
		return providercluster.WithRemedy(fmt.Errorf("read the state of %s: %w", p.name, err))
	}

	conditions, err := p.conditions()
	if err != nil {
		return fmt.Errorf("convert the state of %s: %w", p.name, err)
	}

	cause, unavailable := unavailability(conditions)
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
