// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestDiagnoseDeadController kills the sidecar of a shoot with healthy machines.
func TestDiagnoseDeadController(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	pod := s.StartControllers(t, append(harness.PatientElection(), "--leader-elect=true")...)
	s.ApplyExample(t)

	var name string
	for running := range s.AwaitRunning(t, 3) {
		name = running
	}

	seen, code := s.DiagnoseMachine(t.Context(), t, name)
	require.Zero(t, code)
	require.Equal(t, "Running", seen.Controller("machine-controller"))
	require.Equal(t, "Unknown", seen.Controller("machine-controller-manager"), "the lab runs it without leader election")

	require.NoError(t, pod.Sidecar.Signal(syscall.SIGKILL))
	<-pod.Sidecar.Exited()

	harness.Eventually(t, "diagnose finds that the controller is dead", func(ctx context.Context) (bool, error) {
		seen, code = s.DiagnoseMachine(ctx, t, name)

		return code == 1, nil
	})
	require.Equal(t, "ControllerDown", seen.Cause.Reason)
	require.Equal(t, "Stopped", seen.Controller("machine-controller"))
	require.Contains(t, seen.Cause.Remedy, "machine-controller-manager-provider-kubevirt")

	text, code := s.Diagnose(t.Context(), t, name)
	require.Equal(t, 1, code)
	require.Regexp(t, `machine-controller is not running: its lease `+s.Namespace+`/machine-controller was renewed [0-9a-z]+ ago`, strings.Join(strings.Fields(text), " "))

	again, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Stop(context.WithoutCancel(t.Context()))) })
	s.AwaitEnd(t)
}

// TestDiagnoseMissingSecret removes a Secret that machine-controller-manager
// would pass to the driver.
func TestDiagnoseMissingSecret(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	s.RegisterMachine(t, m)

	seen, code := s.DiagnoseMachine(t.Context(), t, m.Name())
	require.Zero(t, code, "%+v", seen.Cause)

	require.NoError(t, s.Target.CoreV1().Secrets(s.Namespace).Delete(t.Context(), "class", metav1.DeleteOptions{}))

	seen, code = s.DiagnoseMachine(t.Context(), t, m.Name())
	require.Equal(t, 1, code)
	require.Equal(t, "ClassSecretNotFound", seen.Cause.Reason)
	require.Equal(t, codes.InvalidArgument.String(), seen.Cause.Code)
	require.Contains(t, seen.Cause.Message, "Secret "+s.Namespace+"/class does not exist")
	require.Equal(t, "3m0s", seen.Cause.Retry.Period)
	require.Contains(t, seen.Cause.Retry.Command, "annotate machineclass")
}

// TestRetryAtOnce repairs a kubeconfig under machine-controller-manager's own controllers: the
// command printed by diagnose makes them retry long before their three minutes are over.
func TestRetryAtOnce(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	valid := s.ProviderKubeconfig
	changeKubeconfig("token: ey", "token: no")(t, s)
	s.RunControllers(t)
	s.ApplyExample(t)
	s.Scale(t, "example-worker-z2", 0)

	where := "CredentialsRefused: Secret " + s.Namespace + "/cloudprovider"
	failed := awaitOperation(t, s, "example-worker-z1", codes.Unauthenticated, where)

	seen, code := s.DiagnoseMachine(t.Context(), t, failed.Name)
	require.Equal(t, 1, code)
	require.Equal(t, "CredentialsRefused", seen.Cause.Reason)
	require.Equal(t, "3m0s", seen.Cause.Retry.Period)
	require.Contains(t, seen.Cause.Retry.Command, "annotate machineclass example-worker-z1 --overwrite kubevirt.machine.gardener.cloud/retry=")

	repaired := time.Now()
	s.ProviderKubeconfig = valid
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"kubeconfig": valid}})
	require.NoError(t, err)
	_, err = s.Target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	harness.Eventually(t, "diagnose no longer finds a failure", func(ctx context.Context) (bool, error) {
		_, code = s.DiagnoseMachine(ctx, t, failed.Name)

		return code == 0, nil
	})

	annotation := fmt.Appendf(nil, `{"metadata":{"annotations":{"kubevirt.machine.gardener.cloud/retry":"%d"}}}`, repaired.Unix())
	_, err = s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), "example-worker-z1", types.MergePatchType, annotation, metav1.PatchOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the machine has a VirtualMachine", func(ctx context.Context) (bool, error) {
		seen, _ = s.DiagnoseMachine(ctx, t, failed.Name)

		return seen.Provider != nil && len(seen.Provider.Objects) > 0, nil
	})

	retried := s.VM(t, failed.Name).CreationTimestamp.Time
	t.Logf("retried %s after the repair", retried.Sub(repaired).Round(time.Second))
	require.Less(t, retried.Sub(failed.Status.LastOperation.LastUpdateTime.Time), 3*time.Minute,
		"after three minutes machine-controller-manager retries by itself, and the test proves nothing")
	s.AwaitEnd(t)
}
