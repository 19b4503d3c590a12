// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

func TestValidateVolumeClasses(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		classes []api.VolumeClass
		want    []string
	}{
		"None": {},
		"Valid": {classes: []api.VolumeClass{
			{Name: "nvme", Encrypted: true},
			{Name: "ceph-block", ExposeAs: "default", Default: true, ReclaimPolicy: "Retain", VolumeBindingMode: "Immediate", Zones: []string{"a"}, SnapshotClass: "ceph"},
			{Name: "ceph-block", ExposeAs: "second"},
		}},
		"Names": {
			classes: []api.VolumeClass{{ExposeAs: "a"}, {Name: "A_b"}, {Name: "a", ExposeAs: "A_b", SnapshotClass: "A_b"}},
			want:    []string{"classes[0].name", "classes[1].name", "classes[2].exposeAs", "classes[2].snapshotClass"},
		},
		"Duplicate":   {classes: []api.VolumeClass{{Name: "a", ExposeAs: "a"}, {Name: "b", ExposeAs: "a"}}, want: []string{"classes[1].exposeAs"}},
		"Defaults":    {classes: []api.VolumeClass{{Name: "a", ExposeAs: "a", Default: true}, {Name: "b", ExposeAs: "b", Default: true}}, want: []string{"classes[1].default"}},
		"Not exposed": {classes: []api.VolumeClass{{Name: "a", Default: true}, {Name: "b", Zones: []string{"a"}}}, want: []string{"classes[0].exposeAs", "classes[1].exposeAs"}},
		"Zones": {
			classes: []api.VolumeClass{{Name: "a", ExposeAs: "a", Zones: []string{"a", "a", "", "b c", "default"}}},
			want:    []string{"classes[0].zones[1]", "classes[0].zones[2]", "classes[0].zones[3]", "classes[0].zones[4]"},
		},
		"Enums": {
			classes: []api.VolumeClass{{Name: "a", ExposeAs: "a", ReclaimPolicy: "Recycle", VolumeBindingMode: "Later"}},
			want:    []string{"classes[0].reclaimPolicy", "classes[0].volumeBindingMode"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, err := range validation.ValidateVolumeClasses(tc.classes, field.NewPath("classes")) {
				got = append(got, err.Field)
			}

			require.Equal(t, tc.want, got)
		})
	}
}
