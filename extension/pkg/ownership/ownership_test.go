// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
)

func TestOwner(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		uid       types.UID
		labels    map[string]string
		owned     bool
		adopted   bool
		complaint string
	}{
		"own":                 {uid: "1", labels: map[string]string{kubevirt.LabelShoot: "a", providerspec.TagShootUID: "1"}, owned: true},
		"from before":         {uid: "1", labels: map[string]string{kubevirt.LabelShoot: "a"}, owned: true, adopted: true},
		"other landscape":     {uid: "1", labels: map[string]string{kubevirt.LabelShoot: "a", providerspec.TagShootUID: "2"}, complaint: "belongs to another Shoot"},
		"other shoot":         {uid: "1", labels: map[string]string{kubevirt.LabelShoot: "b", providerspec.TagShootUID: "1"}, complaint: "belongs to another shoot: its label"},
		"no labels":           {uid: "1", complaint: "does not belong to the shoot"},
		"Shoot without a UID": {labels: map[string]string{kubevirt.LabelShoot: "a", providerspec.TagShootUID: "2"}, owned: true},
	} {
		owner := ownership.Of(&gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: "a", UID: tc.uid}})
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}

		require.Equal(t, tc.owned, owner.Owns(object), name)

		if !tc.owned {
			err := owner.Check("Secret a", object)
			require.ErrorContains(t, err, tc.complaint, name)
			require.Equal(t, len(tc.labels) == 0, strings.HasSuffix(err.Error(), "; delete it"), "%s: only objects of no shoot may be deleted", name)

			continue
		}

		require.NoError(t, owner.Check("Secret a", object), name)
		require.Equal(t, tc.adopted, owner.Adopt(object), name)

		if tc.adopted {
			require.Equal(t, owner.Labels(), object.Labels, name)
		}
	}
}
