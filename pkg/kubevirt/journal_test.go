package kubevirt_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// notes are the Events that were recorded.
type notes []string

func (n *notes) Event(object runtime.Object, eventType, reason, message string) {
	machine, _ := object.(*v1alpha1.Machine)
	*n = append(*n, strings.Join([]string{machine.Name, eventType, reason, message}, " "))
}

// teller is a PluginSPI that reports these steps in each call.
type teller struct {
	recorder

	steps []spi.Progress
}

func (s *teller) InitializeMachine(_ context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	for _, step := range s.steps {
		in.Report.Tell(step)
	}

	return machine, nil
}

func TestProgressBecomesEventsOnce(t *testing.T) {
	t.Parallel()

	r, written := validRequest(), &notes{}
	tells := &teller{}
	plugin := kubevirt.New(tells, kubevirt.Options{Events: written})

	provisioning, full := spi.Progress{Reason: "Provisioning", Message: "a"}, spi.Progress{Reason: "Unschedulable", Message: "b", Warning: true}
	for _, steps := range [][]spi.Progress{{provisioning}, {provisioning, provisioning}, {full}, {provisioning}} {
		tells.steps = steps
		_, err := plugin.InitializeMachine(t.Context(), &driver.InitializeMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
		require.NoError(t, err)
	}

	require.Equal(t, notes{"m Normal Provisioning a", "m Warning Unschedulable b", "m Normal Provisioning a"}, *written, "what is told again is no news")
}

func TestNobodyNeedsToTakeProgress(t *testing.T) {
	t.Parallel()

	r := validRequest()
	_, err := newPlugin(&teller{steps: []spi.Progress{{Reason: "a"}}}).InitializeMachine(
		t.Context(), &driver.InitializeMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
}
