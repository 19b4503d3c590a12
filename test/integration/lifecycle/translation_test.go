// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestRefusalsNameFieldsOfTheProviderSpec provokes KubeVirt's own refusals. Users know the
// ProviderSpec, not the VirtualMachine.
func TestRefusalsNameFieldsOfTheProviderSpec(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	instancetype := &instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
	instancetype.Spec.CPU.Guest = 1
	instancetype.Spec.Memory.Guest = resource.MustParse("1Gi")
	_, err := s.KubeVirt.InstancetypeV1beta1().VirtualMachineInstancetypes(s.ProviderNamespace).Create(t.Context(), instancetype, metav1.CreateOptions{})
	require.NoError(t, err)

	tests := map[string]struct {
		reason string
		spec   string // overlaid on the shoot's spec
		want   string // a field named in the error, with the error's spelling of indexes
	}{
		"CPU": {
			reason: "only KubeVirt validates placement together with requests",
			spec:   `{"cpu":{"cores":1,"isolateEmulatorThread":true}}`,
			want:   "providerSpec.cpu.isolateEmulatorThread",
		},
		"Disk": {
			reason: "the index is that in the ProviderSpec, not the rendered one",
			spec: `{"additionalVolumes":[{"name":"data","dataVolume":{"source":{"blank":{}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}],
				"devices":{"disks":[{"name":"data","disk":{"bus":"ide"}}]}}`,
			want: "providerSpec.devices.disks(0).disk.bus",
		},
		"Interface": {
			reason: "the same applies to networks",
			spec:   `{"networks":[{"name":"a"},{"name":"b","default":true,"model":"x"}]}`,
			want:   "providerSpec.networks(1)",
		},
		"DNS": {
			reason: "a field of the ProviderSpec's own",
			spec:   `{"dnsPolicy":"None"}`,
			want:   "providerSpec.dnsConfig",
		},
		"Template": {
			reason: "fields of the template are named with their path in the template",
			spec:   `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"evictionStrategy":"Sometimes"}}}}}`,
			want:   "providerSpec.virtualMachineTemplate.spec.template.spec.evictionStrategy",
		},
		"InstancetypeConflict": {
			reason: "an instancetype excludes cpu and memory",
			spec:   `{"virtualMachineTemplate":{"spec":{"instancetype":{"name":"lab","kind":"VirtualMachineInstancetype"}}}}`,
			want:   "providerSpec.cpu.cores",
		},
		"NewerThanThisCDI": {
			reason: "a fault of the golden image is reported for the root volume",
			spec: `{"rootVolume":{"source":{"http":{"url":"https://images.example.com/a","insecureSkipVerify":true}},
				"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}`,
			want: "providerSpec.rootVolume.source.http.insecureSkipVerify",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := s.NewMachine("zone-a", harness.ImportedRoot)
			m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, tc.spec)

			_, err := m.Create(t.Context(), d)
			require.Equal(t, codes.InvalidArgument, harness.CodeOf(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.want, tc.reason)
			t.Log(err)
		})
	}
}
