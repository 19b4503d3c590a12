// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// requireDiagnosed requires that the command reports the same as the driver for a row of the
// failure table, with evidence.
func requireDiagnosed(t *testing.T, s *harness.Shoot, f *harness.Failure, m *harness.Machine) {
	t.Helper()
	s.RegisterMachine(t, m)

	var (
		d    harness.Diagnosis
		code int
	)

	// CDI's and kubelet's conditions change during their retries.
	harness.Eventually(t, "diagnose finds "+f.Want, func(ctx context.Context) (bool, error) {
		d, code = s.DiagnoseMachine(ctx, t, m.Name())

		return d.Cause != nil && d.Cause.Reason == f.Want && code == 1, nil
	})
	require.Equal(t, "CauseFound", d.Result)
	require.Equal(t, f.Code.String(), d.Cause.Code)
	require.NotEmpty(t, d.Cause.Message)
	require.NotEmpty(t, d.Cause.Remedy)

	if answeredAtOnce(d) {
		return
	}

	require.NotNil(t, d.Cause.Evidence, "%+v", d.Cause)
	require.NotEmpty(t, d.Cause.Evidence.Type)
	require.False(t, d.Cause.Evidence.Since.IsZero())
	require.True(t, slices.ContainsFunc(d.Provider.Objects, func(o spi.Object) bool {
		// The claim of a DataVolume has the same name, or is one of CDI's own, as its importer.
		return o.ObjectName == d.Cause.Evidence.Object || d.Cause.Evidence.Object.Kind == "PersistentVolumeClaim" ||
			strings.HasPrefix(d.Cause.Evidence.Object.Name, "importer-")
	}), "the evidence is one of the objects: %+v", d.Cause.Evidence)
	require.Empty(t, d.Provider.Unread, "the shipped Role is enough")
}

// answeredAtOnce reports whether the failure prevents the machine's creation or observation. The
// error then appears in the response to a request, and not in the state of the provider cluster.
func answeredAtOnce(d harness.Diagnosis) bool {
	return d.Provider == nil || d.Provider.Stage == spi.StageAbsent
}

// TestDiagnose diagnoses healthy machines, machines not managed by the
// driver, and missing machines.
func TestDiagnose(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportLatencyAnnotation: "10m"}})

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	s.RegisterMachine(t, m)

	seen, code := s.DiagnoseMachine(t.Context(), t, m.Name())
	require.Zero(t, code)
	require.Equal(t, spi.StageAbsent, seen.Provider.Stage)
	require.Contains(t, seen.WaitingFor, "would accept it now", "a dry run")

	left, err := s.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left, "nothing was created")

	diagnoseVanished(t, s, m)

	_, err = m.Create(t.Context(), d)
	require.NoError(t, err)
	harness.Eventually(t, "the image is being imported", func(ctx context.Context) (bool, error) {
		seen, code = s.DiagnoseMachine(ctx, t, m.Name())

		return strings.Contains(seen.WaitingFor, "which the machine is cloned from, is ImportInProgress"), nil
	})
	require.Zero(t, code, "a slow import is not a failure")
	require.NotEqual(t, "CauseFound", seen.Result)
	require.True(t, slices.ContainsFunc(seen.Provider.Objects, func(o spi.Object) bool { return o.Role == "golden image" }), "%+v", seen.Provider)

	s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportLatencyAnnotation: nil}})
	m.AwaitScheduled(t, d)

	seen, code = s.DiagnoseMachine(t.Context(), t, m.Name())
	require.Zero(t, code)
	require.Equal(t, "NothingWrong", seen.Result)
	require.Equal(t, spi.StageScheduled, seen.Provider.Stage)
	require.Equal(t, "class", seen.Machine.Class)

	for _, kind := range []string{"VirtualMachine", "VirtualMachineInstance", "Pod", "DataVolume"} {
		require.True(t, slices.ContainsFunc(seen.Provider.Objects, func(o spi.Object) bool { return o.Kind == kind }), "%s in %+v", kind, seen.Provider)
	}

	diagnoseWithoutMachine(t, s, m)
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestDiagnose_GuestDoesNotRun diagnoses machines that have a provider node, but no running guest.
func TestDiagnose_GuestDoesNotRun(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		fault     behaviour.Fault
		want, say string
		stop      bool
		// told is set if the driver tells machine-controller-manager, too.
		told bool
	}{
		"NotStarted": {fault: behaviour.FaultNoBoot, want: "GuestNotStarted", say: "has not started the guest"},
		"SyncFailed": {fault: behaviour.FaultSyncFailed, want: "GuestNotStarted", say: "LinkAdd: operation not supported", told: true},
		"Ended": {
			fault: behaviour.FaultCrash,
			want:  "GuestEnded",
			told:  true,
			say:   "with runStrategy Once, KubeVirt does not start it again; the last event: The VirtualMachineInstance crashed",
		},
		"Stopped": {want: "MachineStopped", say: "spec.runStrategy is Halted", stop: true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace})
			m := s.NewMachine("zone-a", harness.EphemeralRoot)
			m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, faulty(tc.fault))
			s.RegisterMachine(t, m)

			_, err := m.Create(t.Context(), d)
			require.NoError(t, err)

			if tc.told {
				harness.Eventually(t, "the driver reports "+tc.want, func(ctx context.Context) (bool, error) {
					_, err := m.Initialize(ctx, d)

					return err != nil && strings.Contains(err.Error(), tc.want), nil
				})
			} else {
				m.AwaitScheduled(t, d)
			}

			if tc.stop {
				setRunStrategy(t, s, m.Name(), kubevirtv1.RunStrategyHalted)
			}

			var found harness.Diagnosis

			harness.Eventually(t, "diagnose finds "+tc.want, func(ctx context.Context) (bool, error) {
				var code int

				found, code = s.DiagnoseMachine(ctx, t, m.Name())

				return code == 1 && found.Cause.Reason == tc.want && strings.Contains(found.Cause.Message, tc.say), nil
			})
			t.Log(found.Cause.Message, found.Cause.Remedy)
			require.NotContains(t, found.WaitingFor, "console")
			require.NoError(t, m.Remove(t.Context(), d))
		})
	}
}

// diagnoseVanished diagnoses a Machine that reports that it was scheduled,
// but has no VirtualMachine.
func diagnoseVanished(t *testing.T, s *harness.Shoot, m *harness.Machine) {
	t.Helper()

	patch := func(id string) {
		_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), m.Name(), types.MergePatchType,
			[]byte(`{"spec":{"providerID":"`+id+`"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}

	patch("kubevirt://" + m.Name())

	seen, code := s.DiagnoseMachine(t.Context(), t, m.Name())
	require.Equal(t, 1, code)
	require.Equal(t, "MachineVanished", seen.Cause.Reason)
	require.Equal(t, codes.NotFound.String(), seen.Cause.Code)

	patch("")
}

// diagnoseWithoutMachine diagnoses the virtual machine of a deleted Machine, in all
// ways, and then a foreign one.
func diagnoseWithoutMachine(t *testing.T, s *harness.Shoot, m *harness.Machine) {
	t.Helper()

	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)
	_, err := machines.Patch(t.Context(), m.Name(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, machines.Delete(t.Context(), m.Name(), metav1.DeleteOptions{}))

	borrowed := "--provider-kubeconfig=" + s.ProviderKubeconfigFile

	ways := map[string][]string{
		"with the existing classes": nil, "with other credentials": {borrowed}, "without a control cluster": {borrowed, "--cluster=" + s.Namespace},
	}
	for way, args := range ways {
		seen, code := s.DiagnoseMachine(t.Context(), t, m.Name(), args...)
		require.Zero(t, code, way)
		require.Nil(t, seen.Machine, way)
		require.Equal(t, spi.StageScheduled, seen.Provider.Stage, way)

		seen, code = s.DiagnoseMachine(t.Context(), t, "nosuch", args...)
		require.Equal(t, 2, code, way)
		require.Contains(t, seen.Error, "the Machine does not exist", way)
	}

	seen, code := s.DiagnoseMachine(t.Context(), t, m.Name(), borrowed, "--cluster=shoot--other")
	require.Equal(t, 1, code)
	require.Equal(t, "ForeignObject", seen.Cause.Reason)
	require.Nil(t, seen.Provider, "a foreign object is not shown")
	require.Empty(t, seen.Evidence)

	text, code := s.Diagnose(t.Context(), t, m.Name(), borrowed, "--cluster=shoot--other")
	require.Equal(t, 1, code)
	require.Contains(t, text, "CAUSE ForeignObject")
	require.NotContains(t, text, "Running")
}
