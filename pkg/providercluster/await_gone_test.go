package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
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
		"AllThereIs": {"what a ProviderSpec can ask for is never cut", ptr.To(int64(validation.MaxTerminationGracePeriod / time.Second)), MaxDeleteWait},
		"More":       {"a VirtualMachine of an older release", ptr.To[int64](3600), MaxDeleteWait},
		"TooMuch":    {"no overflow", ptr.To[int64](1 << 62), MaxDeleteWait},
		"Negative":   {"an invalid grace period of an edited VirtualMachine", ptr.To[int64](-5), deleteSlack},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, deleteWait(tc.grace, MaxDeleteWait), tc.reason)
		})
	}
}
