// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestDelegate_ValidateAnnotations refuses an annotation that connects machines to another network, unless machines have it.
func TestDelegate_ValidateAnnotations(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason  string
		inClass string
		restore bool
		valid   bool
	}{
		"No class":      {reason: "a garden without the admission"},
		"Other network": {reason: "it is no network of the machines", inClass: "shoot--bank--test"},
		"Same network":  {reason: "the shoot has it from before", inClass: "shoot--bank--prod", valid: true},
		"Restored":      {reason: "the new seed has no classes yet", restore: true, valid: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			s.config = "virtualMachineTemplate: {spec: {template: {metadata: {annotations: {ovn.kubernetes.io/logical_switch: shoot--bank--prod}}}}}"

			if tc.restore {
				metav1.SetMetaDataAnnotation(&s.worker.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationRestore)
			}

			d := s.delegate(t)
			if tc.inClass != "" {
				raw := `{"virtualMachineTemplate": {"spec": {"template": {"metadata": {"annotations": {"ovn.kubernetes.io/logical_switch": "` + tc.inClass + `"}}}}}}`
				require.NoError(t, d.seed.Create(t.Context(), &machinev1alpha1.MachineClass{
					ObjectMeta: metav1.ObjectMeta{Namespace: seedNamespace, Name: "older"}, ProviderSpec: runtime.RawExtension{Raw: []byte(raw)},
				}))
			}

			w, err := d.generated(t.Context())
			if tc.valid {
				require.NoError(t, err, tc.reason)
				require.Len(t, w.classes, 1)

				return
			}

			require.ErrorContains(t, err, "annotations[ovn.kubernetes.io/logical_switch]", tc.reason)
		})
	}
}
