package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// diagnosis is the machine-readable output of mcm-kubevirt diagnose for one machine.
type diagnosis struct {
	Name       string `json:"name"`
	Result     string `json:"result"`
	Error      string `json:"error"`
	WaitingFor string `json:"waitingFor"`
	Machine    *struct {
		Class string `json:"class"`
	} `json:"machine"`
	Provider *struct {
		Stage   spi.Stage    `json:"stage"`
		Objects []spi.Object `json:"objects"`
		Unread  []string     `json:"unread"`
	} `json:"provider"`
	Cause *struct {
		Reason   string    `json:"reason"`
		Code     string    `json:"code"`
		Message  string    `json:"message"`
		Remedy   string    `json:"remedy"`
		Evidence *spi.Sign `json:"evidence"`
		Retry    *struct {
			Period  string `json:"period"`
			Command string `json:"command"`
		} `json:"retry"`
	} `json:"cause"`
	Control *struct {
		Controllers []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"controllers"`
	} `json:"control"`
	Evidence []spi.Sign `json:"evidence"`
}

// controller returns the diagnosis of a controller.
func (d *diagnosis) controller(name string) string {
	for _, c := range d.Control.Controllers {
		if c.Name == name {
			return c.State
		}
	}

	return ""
}

// diagnose runs the command as an operator does in the sidecar's pod, and returns
// its output and exit code.
func (s *shoot) diagnose(ctx context.Context, t *testing.T, args ...string) (text string, code int) {
	t.Helper()

	args = append([]string{"diagnose", "--control-kubeconfig=" + s.SidecarKubeconfig, "--unschedulable-grace=" + shortGrace.String()}, args...)
	out, err := exec.CommandContext(ctx, remoteDriver, args...).Output()
	recorder.said.line(string(out)) // The output is also searched for secrets.

	var failed *exec.ExitError
	if errors.As(err, &failed) {
		recorder.said.line(string(failed.Stderr))
		t.Log(string(failed.Stderr))

		return string(out), failed.ExitCode()
	}

	require.NoError(t, err)

	return string(out), 0
}

// diagnoseMachine is diagnose of one machine, with machine-readable output.
func (s *shoot) diagnoseMachine(ctx context.Context, t *testing.T, name string, args ...string) (d diagnosis, code int) {
	t.Helper()

	out, code := s.diagnose(ctx, t, append(args, "-o=json", name)...)

	var all struct {
		Machines []diagnosis `json:"machines"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &all), out)
	require.Len(t, all.Machines, 1)

	return all.Machines[0], code
}

// reconciled is the finalizer that the machine controller adds to a Machine first. diagnose reports
// a Machine without it, after two minutes, as one that no controller reconciles.
const reconciled = "machine.sapcloud.io/machine-controller-manager"

// register creates, in the control cluster, the objects that machine-controller-manager passes to
// drivers. No controller acts on them there.
func (s *shoot) register(t *testing.T, m *machine) {
	t.Helper()

	secret := m.secret.DeepCopy()
	secret.Name = "class"
	_, err := s.target.CoreV1().Secrets(s.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)

	class := m.class.DeepCopy()
	class.SecretRef = &corev1.SecretReference{Namespace: s.Namespace, Name: secret.Name}
	_, err = s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	made := m.machine.DeepCopy()
	made.Finalizers = []string{reconciled}
	made.Spec.Class = v1alpha1.ClassSpec{Kind: "MachineClass", Name: class.Name}
	_, err = s.mcm.MachineV1alpha1().Machines(s.Namespace).Create(t.Context(), made, metav1.CreateOptions{})
	require.NoError(t, err)
}

// requireDiagnosed requires that the command reports the same as the driver for a row of the
// failure table, with evidence.
func (s *shoot) requireDiagnosed(t *testing.T, f *failure, m *machine) {
	t.Helper()
	s.register(t, m)

	var (
		d    diagnosis
		code int
	)

	// CDI's and kubelet's conditions change during their retries.
	eventually(t, "diagnose finds "+f.want, func(ctx context.Context) (bool, error) {
		d, code = s.diagnoseMachine(ctx, t, m.name())

		return d.Cause != nil && d.Cause.Reason == f.want && code == 1, nil
	})
	require.Equal(t, "CauseFound", d.Result)
	require.Equal(t, f.code.String(), d.Cause.Code)
	require.NotEmpty(t, d.Cause.Message)
	require.NotEmpty(t, d.Cause.Remedy)

	if s.answeredAtOnce(d) {
		return
	}

	require.NotNil(t, d.Cause.Evidence, "%+v", d.Cause)
	require.NotEmpty(t, d.Cause.Evidence.Type)
	require.False(t, d.Cause.Evidence.Since.IsZero())
	require.True(t, slices.ContainsFunc(d.Provider.Objects, func(o spi.Object) bool {
		// The claim of a DataVolume has the same name, or is one of CDI's own.
		return o.ObjectName == d.Cause.Evidence.Object || d.Cause.Evidence.Object.Kind == "PersistentVolumeClaim"
	}), "the evidence is one of the objects: %+v", d.Cause.Evidence)
	require.Empty(t, d.Provider.Unread, "the shipped Role is enough")
}

// answeredAtOnce reports whether the failure prevents the machine's creation or observation. The
// error then appears in the response to a request, and not in the state of the provider cluster.
func (s *shoot) answeredAtOnce(d diagnosis) bool {
	return d.Provider == nil || d.Provider.Stage == spi.StageAbsent
}

// TestDiagnose diagnoses healthy machines, machines not managed by the
// driver, and missing machines.
func TestDiagnose(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportLatencyAnnotation: "10m"}})

	m := s.newMachine("zone-a", importedRoot)
	s.register(t, m)

	seen, code := s.diagnoseMachine(t.Context(), t, m.name())
	require.Zero(t, code)
	require.Equal(t, spi.StageAbsent, seen.Provider.Stage)
	require.Contains(t, seen.WaitingFor, "would accept it now", "a dry run")

	left, err := s.left(t.Context())
	require.NoError(t, err)
	require.Empty(t, left, "nothing was created")

	s.diagnoseVanished(t, m)

	_, err = m.create(t.Context(), d)
	require.NoError(t, err)
	eventually(t, "the image is being imported", func(ctx context.Context) (bool, error) {
		seen, code = s.diagnoseMachine(ctx, t, m.name())

		return strings.Contains(seen.WaitingFor, "which the machine is cloned from, is ImportInProgress"), nil
	})
	require.Zero(t, code, "what is merely slow is no failure")
	require.NotEqual(t, "CauseFound", seen.Result)
	require.True(t, slices.ContainsFunc(seen.Provider.Objects, func(o spi.Object) bool { return o.Role == "golden image" }), "%+v", seen.Provider)

	s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportLatencyAnnotation: nil}})
	m.awaitScheduled(t, d)

	seen, code = s.diagnoseMachine(t.Context(), t, m.name())
	require.Zero(t, code)
	require.Equal(t, "NothingWrong", seen.Result)
	require.Equal(t, spi.StageScheduled, seen.Provider.Stage)
	require.Equal(t, "class", seen.Machine.Class)

	for _, kind := range []string{"VirtualMachine", "VirtualMachineInstance", "Pod", "DataVolume"} {
		require.True(t, slices.ContainsFunc(seen.Provider.Objects, func(o spi.Object) bool { return o.Kind == kind }), "%s in %+v", kind, seen.Provider)
	}

	s.diagnoseWithoutMachine(t, m)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// diagnoseVanished diagnoses a Machine that reports that it was scheduled,
// but has no VirtualMachine.
func (s *shoot) diagnoseVanished(t *testing.T, m *machine) {
	t.Helper()

	patch := func(id string) {
		_, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), m.name(), types.MergePatchType,
			[]byte(`{"spec":{"providerID":"`+id+`"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}

	patch("kubevirt://" + m.name())

	seen, code := s.diagnoseMachine(t.Context(), t, m.name())
	require.Equal(t, 1, code)
	require.Equal(t, "MachineVanished", seen.Cause.Reason)
	require.Equal(t, codes.NotFound.String(), seen.Cause.Code)

	patch("")
}

// diagnoseWithoutMachine diagnoses the virtual machine of a deleted Machine, in all
// ways, and then a foreign one.
func (s *shoot) diagnoseWithoutMachine(t *testing.T, m *machine) {
	t.Helper()

	machines := s.mcm.MachineV1alpha1().Machines(s.Namespace)
	_, err := machines.Patch(t.Context(), m.name(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, machines.Delete(t.Context(), m.name(), metav1.DeleteOptions{}))

	borrowed := "--provider-kubeconfig=" + s.ProviderKubeconfigFile

	ways := map[string][]string{
		"with the classes that are there": nil, "with other credentials": {borrowed}, "without a control cluster": {borrowed, "--cluster=" + s.Namespace},
	}
	for way, args := range ways {
		seen, code := s.diagnoseMachine(t.Context(), t, m.name(), args...)
		require.Zero(t, code, way)
		require.Nil(t, seen.Machine, way)
		require.Equal(t, spi.StageScheduled, seen.Provider.Stage, way)

		seen, code = s.diagnoseMachine(t.Context(), t, "nosuch", args...)
		require.Equal(t, 2, code, way)
		require.Contains(t, seen.Error, "the Machine does not exist", way)
	}

	seen, code := s.diagnoseMachine(t.Context(), t, m.name(), borrowed, "--cluster=shoot--other")
	require.Equal(t, 1, code)
	require.Equal(t, "ForeignObject", seen.Cause.Reason)
	require.Nil(t, seen.Provider, "nothing of it is shown")
	require.Empty(t, seen.Evidence)

	text, code := s.diagnose(t.Context(), t, m.name(), borrowed, "--cluster=shoot--other")
	require.Equal(t, 1, code)
	require.Contains(t, text, "CAUSE ForeignObject")
	require.NotContains(t, text, "Running")
}
