package kubevirt

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestMissingMachinesAreForgotten(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	m, refusal := newMissing(clock), spi.ErrAddressChanged
	m.record(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, refusal)
	m.record(&v1alpha1.Machine{}, refusal)
	m.record(nil, refusal)
	require.Equal(t, 1, m.count())

	clock.SetTime(clock.Now().Add(2 * 10 * time.Minute))
	require.Equal(t, 1, m.count(), "the next call comes within ten minutes, and takes its time")

	clock.SetTime(clock.Now().Add(10 * time.Minute))
	require.Zero(t, m.count(), "no call comes any more")
}
