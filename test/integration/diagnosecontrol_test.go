package integration

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
)

// TestDiagnoseDeadController kills the sidecar of a shoot with healthy machines.
func TestDiagnoseDeadController(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	pod := s.startControllers(t, "--leader-elect=true")
	s.applyExample(t)

	var name string
	for running := range s.awaitRunning(t, 3) {
		name = running
	}

	seen, code := s.diagnoseMachine(t.Context(), t, name)
	require.Zero(t, code)
	require.Equal(t, "Running", seen.controller("machine-controller"))
	require.Equal(t, "Unknown", seen.controller("machine-controller-manager"), "the lab runs it without leader election")

	require.NoError(t, pod.sidecar.Signal(syscall.SIGKILL))
	<-pod.sidecar.Exited()

	eventually(t, "diagnose finds that the controller is dead", func(ctx context.Context) (bool, error) {
		seen, code = s.diagnoseMachine(ctx, t, name)

		return code == 1, nil
	})
	require.Equal(t, "ControllerDown", seen.Cause.Reason)
	require.Equal(t, "Stopped", seen.controller("machine-controller"))
	require.Contains(t, seen.Cause.Remedy, "machine-controller-manager-provider-kubevirt")

	text, code := s.diagnose(t.Context(), t, name)
	require.Equal(t, 1, code)
	require.Regexp(t, `machine-controller is not running: its lease `+s.Namespace+`/machine-controller was renewed [0-9a-z]+ ago`, strings.Join(strings.Fields(text), " "))

	again, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Stop(context.WithoutCancel(t.Context()))) })
	s.awaitEnd(t)
}

// TestDiagnoseMissingSecret removes a Secret that machine-controller-manager
// would pass to the driver.
func TestDiagnoseMissingSecret(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	m := s.newMachine("zone-a", importedRoot)
	s.register(t, m)

	seen, code := s.diagnoseMachine(t.Context(), t, m.name())
	require.Zero(t, code, "%+v", seen.Cause)

	require.NoError(t, s.target.CoreV1().Secrets(s.Namespace).Delete(t.Context(), "class", metav1.DeleteOptions{}))

	seen, code = s.diagnoseMachine(t.Context(), t, m.name())
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

	s := newShoot(t)
	valid := s.ProviderKubeconfig
	changeKubeconfig("token: ey", "token: no")(t, s)
	s.runControllers(t)
	s.applyExample(t)
	s.scale(t, "example-worker-z2", 0)

	where := "CredentialsRefused: Secret " + s.Namespace + "/cloudprovider"
	failed := s.awaitOperation(t, "example-worker-z1", codes.Unauthenticated, where)

	seen, code := s.diagnoseMachine(t.Context(), t, failed.Name)
	require.Equal(t, 1, code)
	require.Equal(t, "CredentialsRefused", seen.Cause.Reason)
	require.Equal(t, "3m0s", seen.Cause.Retry.Period)
	require.Contains(t, seen.Cause.Retry.Command, "annotate machineclass example-worker-z1 --overwrite kubevirt.machine.gardener.cloud/retry=")

	repaired := time.Now()
	s.ProviderKubeconfig = valid
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"kubeconfig": valid}})
	require.NoError(t, err)
	_, err = s.target.CoreV1().Secrets(s.Namespace).Patch(t.Context(), "cloudprovider", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, "diagnose finds nothing wrong any more", func(ctx context.Context) (bool, error) {
		_, code = s.diagnoseMachine(ctx, t, failed.Name)

		return code == 0, nil
	})

	annotation := fmt.Appendf(nil, `{"metadata":{"annotations":{"kubevirt.machine.gardener.cloud/retry":"%d"}}}`, repaired.Unix())
	_, err = s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Patch(t.Context(), "example-worker-z1", types.MergePatchType, annotation, metav1.PatchOptions{})
	require.NoError(t, err)

	eventually(t, "the machine has a VirtualMachine", func(ctx context.Context) (bool, error) {
		seen, _ = s.diagnoseMachine(ctx, t, failed.Name)

		return seen.Provider != nil && len(seen.Provider.Objects) > 0, nil
	})

	t.Logf("retried %s after the repair", time.Since(repaired).Round(time.Second))
	require.Less(t, time.Since(failed.Status.LastOperation.LastUpdateTime.Time), 3*time.Minute,
		"after three minutes machine-controller-manager retries by itself, and the test proves nothing")
	s.awaitEnd(t)
}
