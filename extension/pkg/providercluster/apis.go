// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CheckAPIs returns an error unless the provider cluster responds, accepts the credentials, lets the
// account list objects of KubeVirt and CDI in its namespace, and has both installed. The error names the remedy.
func (c *Cluster) CheckAPIs(ctx context.Context) error {
	for _, product := range []struct {
		name string
		list client.ObjectList
	}{{"KubeVirt", &kubevirtv1.VirtualMachineList{}}, {"CDI", &cdiv1beta1.DataVolumeList{}}} {
		err := c.List(ctx, product.list, client.InNamespace(c.Namespace), client.Limit(1))

		if apierrors.IsNotFound(err) {
			return v1beta1helper.NewErrorWithCodes(errors.New("the provider cluster does not have "+product.name+"; install it"), gardencorev1beta1.ErrorRetryableInfraDependencies)
		}

		if err != nil {
			return WithRemedy(fmt.Errorf("list objects of %s: %w", product.name, err))
		}
	}

	return nil
}
