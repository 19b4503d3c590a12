// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// notes are the Events that were recorded.
type notes []string

func (n *notes) Event(object runtime.Object, eventType, reason, message string) {
	machine, _ := object.(*v1alpha1.Machine)
	*n = append(*n, strings.Join([]string{machine.Name, eventType, reason, message}, " "))
}

func (*notes) Eventf(runtime.Object, string, string, string, ...any) { panic("not used") }

func (*notes) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
	panic("not used")
}

// teller is a PluginSPI that reports these steps in each call.
type teller struct {
	recorder

	steps []spi.Progress
}

func (s *teller) InitializeMachine(_ context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	for _, step := range s.steps {
		in.Report.Send(step)
	}

	return machine, nil
}

func TestReportFor_Once(t *testing.T) {
	t.Parallel()

	r := validRequest()
	written := &notes{}
	tells := &teller{}
	plugin := kubevirt.New(tells, kubevirt.Options{Events: written})

	provisioning := spi.Progress{Reason: "Provisioning", Message: "a"}
	scheduled := spi.Progress{Reason: "Scheduled", Message: "b[c]"}
	for _, steps := range [][]spi.Progress{{provisioning}, {provisioning, provisioning}, {scheduled}, {provisioning}} {
		tells.steps = steps
		_, err := plugin.InitializeMachine(t.Context(), &driver.InitializeMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
		require.NoError(t, err)
	}

	require.Equal(t, notes{"m Normal Provisioning a", "m Normal Scheduled b(c)", "m Normal Provisioning a"}, *written, "a repeated Event is not recorded")
}

func TestReportFor_NoRecorder(t *testing.T) {
	t.Parallel()

	r := validRequest()
	_, err := newPlugin(&teller{steps: []spi.Progress{{Reason: "a"}}}).InitializeMachine(
		t.Context(), &driver.InitializeMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
}

// TestRecordFailure lets each method fail with each kind of error, twice.
func TestRecordFailure(t *testing.T) {
	t.Parallel()

	const (
		grantRole = "run kubectl apply -k kubernetes/provider-namespace to grant the missing permission; if a policy denies the object, ask for an exception"
		// removeBlocker ends even a text that is cut.
		removeBlocker = "; remove the blocker; deletion continues"
	)

	long := strings.Repeat("x", 2000)

	tests := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Sentinel":      {"the token replaces the text of the sentinel", spi.Errorf(spi.ErrForbidden, "get VirtualMachine [a]: no"), "PermissionDenied get VirtualMachine (a): no; " + grantRole},
		"Diagnosis":     {"a diagnosis has its own token", &spi.Error{Kind: spi.ErrUnavailable, Reason: "NodeDown", Message: "of [a] node", Remedy: "repair it"}, "NodeDown of (a) node; repair it"},
		"Fault":         {"a fault of the driver is a failure", errors.New("surprise"), "Unknown surprise; report the bug"},
		"Long":          {"Events are bounded as texts are", spi.Errorf(spi.ErrTimeout, "%s", long), "TimedOut " + long[:1000-len(" …")-len(removeBlocker)] + " …" + removeBlocker},
		"NotFound":      {"an expected response", spi.ErrNotFound, ""},
		"Uninitialized": {"an expected response", spi.ErrUninitialized, ""},
		"Conflict":      {"another operation ends it", spi.ErrConflict, ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for method, do := range calls() {
				r := validRequest()
				written := &notes{}
				plugin := kubevirt.New(&recorder{err: tc.err}, kubevirt.Options{Events: written})

				for range 2 {
					require.Error(t, do(t.Context(), plugin, r))
				}

				want := notes{}
				if tc.want != "" && method != "ListMachines" {
					want = notes{"m Warning " + tc.want}
				}

				require.Equal(t, want, *written, "%s: %s", method, tc.reason)
			}
		})
	}
}

func TestRecordFailure_InvalidRequest(t *testing.T) {
	t.Parallel()

	r := validRequest()
	written := &notes{}
	r.class.ProviderSpec.Raw = []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c"}}`)
	plugin := kubevirt.New(&recorder{}, kubevirt.Options{Events: written})

	require.Error(t, calls()["CreateMachine"](t.Context(), plugin, r))
	require.Len(t, *written, 1)
	require.Contains(t, (*written)[0], "m Warning InvalidInput ")
}

func TestRecordEvent_Omitted(t *testing.T) {
	t.Parallel()

	for reason, tc := range map[string]struct {
		uid  types.UID
		ends bool
		want int
	}{
		"a Machine of its own does":                              {uid: "u", want: 1},
		"a Machine made up of an orphan's name is in no cluster": {},
		"what the end of the process cuts off is no failure":     {uid: "u", ends: true},
	} {
		r := validRequest()
		written := &notes{}
		r.machine.UID = tc.uid

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		if tc.ends {
			cancel()
		}

		plugin := kubevirt.New(&recorder{err: spi.ErrUnavailable}, kubevirt.Options{Events: written})
		require.Error(t, calls()["DeleteMachine"](ctx, plugin, r))
		require.Len(t, *written, tc.want, reason)
	}
}
