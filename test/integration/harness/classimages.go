// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// GoldenImages returns the UIDs of the shoot's golden images by name, and those that are complete.
func (s *Shoot) GoldenImages(ctx context.Context) (all, complete map[string]types.UID, err error) {
	list, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: apiv1alpha1.TagCluster + "=" + s.Namespace + "," + apiv1alpha1.LabelGoldenImage + ",!" + apiv1alpha1.TagRole,
	})
	if err != nil {
		return nil, nil, err
	}

	all = map[string]types.UID{}
	complete = map[string]types.UID{}

	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].UID

		if list.Items[i].Status.Phase == cdiv1beta1.Succeeded {
			complete[list.Items[i].Name] = list.Items[i].UID
		}
	}

	return all, complete, nil
}

// AwaitOneImage waits until there is exactly one golden image, and it is complete.
func (s *Shoot) AwaitOneImage(t *testing.T) (images map[string]types.UID) {
	t.Helper()

	Eventually(t, "the golden image is imported", func(ctx context.Context) (bool, error) {
		all, complete, err := s.GoldenImages(ctx)
		images = complete

		return len(all) == 1 && len(complete) == 1, err
	})

	return images
}
