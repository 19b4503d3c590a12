// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/containerizeddataimporter/fake"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// TestRepairImage_RefusedClaim tests an image whose claim has exceeded a quota for a long time.
func TestRepairImage_RefusedClaim(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reported string
		refused  error // the response to the deletion
		want     int   // deletions
	}{
		"NotReported":       {},
		"Reported":          {reported: "QuotaExceeded", want: 1},
		"WithoutPermission": {reported: "QuotaExceeded", want: 1, refused: apierrors.NewForbidden(cdiv1beta1.Resource("datavolumes"), "image", errors.New("no role"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			image := &cdiv1beta1.DataVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "image", Namespace: "ns", UID: "i", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
				Status: cdiv1beta1.DataVolumeStatus{
					Phase: cdiv1beta1.Pending,
					Conditions: []cdiv1beta1.DataVolumeCondition{
						{Type: cdiv1beta1.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "ErrExceededQuota"},
					},
				},
			}
			cdi := fake.NewSimpleClientset(image)
			cdi.PrependReactor("delete", "datavolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.refused != nil, nil, tc.refused
			})

			m := NewMachines(nil, images.NewManager(clock.RealClock{}, time.Hour), Options{OrphanPeriod: time.Hour})
			state := &evidence{Evidence: diagnose.Evidence{VirtualMachine: &kubevirtv1.VirtualMachine{}}, key: machineKey{name: "m"}}
			m.records.Use("m", func(r *record) { r.reported = tc.reported })

			require.NoError(t, m.judgeImage(t.Context(), &providerapi.Clients{Server: "s", Namespace: "ns", CDI: cdi}, state, image, image))
			require.Len(t, cdi.Actions(), tc.want)
		})
	}
}
