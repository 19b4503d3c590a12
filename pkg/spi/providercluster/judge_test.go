package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// TestEvidenceCountsByWhenItWasRead looks at an importer that failed once: what was read a minute ago may have passed since.
func TestEvidenceCountsByWhenItWasRead(t *testing.T) {
	t.Parallel()

	const grace = 30 * time.Second

	failed := time.Now().Truncate(time.Second)
	p := New(Options{Clock: clocktesting.NewFakeClock(failed.Add(2 * time.Minute)), UnschedulableGrace: grace})
	seen := func(read time.Duration) *sighting {
		return &sighting{
			Evidence: diagnose.Evidence{
				VirtualMachine: &kubevirtv1.VirtualMachine{},
				DataVolumes: []cdiv1beta1.DataVolume{{
					ObjectMeta: metav1.ObjectMeta{Name: "disk"},
					Status: cdiv1beta1.DataVolumeStatus{
						Phase: cdiv1beta1.ImportInProgress,
						Conditions: []cdiv1beta1.DataVolumeCondition{{
							Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: "Error", Message: "Unable to connect: 404",
							LastTransitionTime: metav1.NewTime(failed),
						}},
					},
				}},
			},
			read: failed.Add(read),
		}
	}

	require.Nil(t, p.judge(seen(grace)).ripe, "it was young when it was read")
	require.Zero(t, p.judge(seen(grace)).next, "nothing ripens by itself that is not read again")
	require.NotNil(t, p.judge(seen(2*grace)).ripe, "it had stood for long enough")
}
