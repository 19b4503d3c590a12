// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Diagnosis is the machine-readable output of mcm-kubevirt diagnose for one machine.
type Diagnosis struct {
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

// Controller returns the diagnosis of a controller.
func (d *Diagnosis) Controller(name string) string {
	for _, c := range d.Control.Controllers {
		if c.Name == name {
			return c.State
		}
	}

	return ""
}

// Diagnose runs the command as an operator does in the sidecar's pod, and returns
// its output and exit code.
func (s *Shoot) Diagnose(ctx context.Context, t *testing.T, args ...string) (text string, code int) {
	t.Helper()

	args = append([]string{"diagnose", "--control-kubeconfig=" + s.SidecarKubeconfig, "--unschedulable-grace=" + ShortGrace.String()}, args...)
	out, err := exec.CommandContext(ctx, RemoteDriver(), args...).Output()
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

// DiagnoseMachine is diagnose of one machine, with machine-readable output. An operator also repeats it if the provider cluster, here without a
// processor, has not responded in time to a request for an object.
func (s *Shoot) DiagnoseMachine(ctx context.Context, t *testing.T, name string, args ...string) (d Diagnosis, code int) {
	t.Helper()

	const attempts = 5

	for range attempts {
		if d, code = s.diagnoseOnce(ctx, t, name, args...); !isLate(d) {
			break
		}
	}

	return d, code
}

func isLate(d Diagnosis) bool {
	return d.Provider != nil && slices.ContainsFunc(d.Provider.Unread, func(reason string) bool {
		return strings.HasSuffix(reason, "no response in time")
	})
}

func (s *Shoot) diagnoseOnce(ctx context.Context, t *testing.T, name string, args ...string) (d Diagnosis, code int) {
	t.Helper()

	out, code := s.Diagnose(ctx, t, append(args, "-o=json", name)...)

	var all struct {
		Machines []Diagnosis `json:"machines"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &all), out)
	require.Len(t, all.Machines, 1)

	return all.Machines[0], code
}

// reconciled is the finalizer that the machine controller adds to a Machine first. diagnose reports
// a Machine without it, after two minutes, as one that no controller reconciles.
const reconciled = "machine.sapcloud.io/machine-controller-manager"

// RegisterMachine creates, in the control cluster, the objects that machine-controller-manager
// passes to drivers. No controller acts on them there.
func (s *Shoot) RegisterMachine(t *testing.T, m *Machine) {
	t.Helper()

	secret := m.Secret.DeepCopy()
	secret.Name = "class"
	_, err := s.Target.CoreV1().Secrets(s.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)

	class := m.Class.DeepCopy()
	class.SecretRef = &corev1.SecretReference{Namespace: s.Namespace, Name: secret.Name}
	_, err = s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	made := m.Machine.DeepCopy()
	made.Finalizers = []string{reconciled}
	made.Spec.Class = v1alpha1.ClassSpec{Kind: "MachineClass", Name: class.Name}
	_, err = s.MCM.MachineV1alpha1().Machines(s.Namespace).Create(t.Context(), made, metav1.CreateOptions{})
	require.NoError(t, err)
}
