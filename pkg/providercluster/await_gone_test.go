// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestDeleteWait(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		grace  *int64
		want   time.Duration
	}{
		"None":       {"KubeVirt's own period", nil, 30*time.Second + deleteSlack},
		"Zero":       {"a guest that is ended at once", ptr.To[int64](0), deleteSlack},
		"Some":       {"all of its time", ptr.To[int64](60), time.Minute + deleteSlack},
		"AllThereIs": {"what a ProviderSpec can ask for is never cut", ptr.To(int64(validation.MaxTerminationGracePeriod / time.Second)), maxDeleteWait},
		"More":       {"a VirtualMachine of an older release", ptr.To[int64](3600), maxDeleteWait},
		"TooMuch":    {"no overflow", ptr.To[int64](1 << 62), maxDeleteWait},
		"Negative":   {"an invalid grace period of an edited VirtualMachine", ptr.To[int64](-5), deleteSlack},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, deleteWait(tc.grace, maxDeleteWait), tc.reason)
		})
	}
}

// instanceServer has an instance without a VirtualMachine. It answers deletions of
// the instance with a status.
func instanceServer(t *testing.T, deletion *metav1.Status) http.HandlerFunc {
	t.Helper()

	instance := &kubevirtv1.VirtualMachineInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: foundVM("u", ours, "m").ObjectMeta,
	}

	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.URL.Path, "/virtualmachineinstances/"):
			answerWith(t, w, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
		case r.Method == http.MethodDelete:
			answerWith(t, w, int(deletion.Code), deletion)
		default:
			answerWith(t, w, http.StatusOK, instance)
		}
	}
}

// TestRemoveInstance_Forbidden may not delete the instance of a VirtualMachine that is gone.
func TestRemoveInstance_Forbidden(t *testing.T) {
	t.Parallel()

	p, kubeconfig := providerAt(t, instanceServer(t, statusOf(http.StatusForbidden, metav1.StatusReasonForbidden)))

	c, err := p.clients.For(kubeconfig)
	require.NoError(t, err)

	in := &spi.DeleteMachineInput{Name: "m", Identity: ours}
	require.ErrorIs(t, p.removeInstance(t.Context(), c, in, targetMachine{}), spi.ErrForbidden)
}
