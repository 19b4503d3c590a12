// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// TestKilledLab kills a second lab with a real node, on which a guest runs, and requires that this machine is then as it was before: nothing of
// the lab is left, and no setting differs.
func TestKilledLab(t *testing.T) {
	record(t)

	manager := filepath.Join(t.TempDir(), "lab-manager")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", manager,
		"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/manager").CombinedOutput()
	require.NoError(t, err, string(output))

	before := stateOfMachine(t)
	name := "killed-" + rand.String(6)
	lab := outside(t.Context(), t, manager, "run", "--nodes=real", "--node-count=1", "--name="+name)
	lab.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, err := lab.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, lab.Start())
	awaitLine(t, console, "is ready")

	other := readState(t, name)
	other.startGuest(t)

	programs := programsOf(t, lab.Process.Pid)
	requirePrograms(t, programs, "etcd", "kube-apiserver", "virt-controller", "runc", "containerd", "kubelet", "kube-proxy", "virt-handler", "virt-launcher",
		"virtqemud", "qemu-system-x86_64")
	requireAcceleration(t, programs)
	require.NotEmpty(t, cgroupsWith(other.cgroups()))
	require.DirExists(t, other.data())

	require.NoError(t, lab.Process.Kill())
	require.Error(t, lab.Wait())

	harness.Eventually(t, "nothing is left of the lab", func(context.Context) (bool, error) {
		if left := slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return !p.isAlive() }); len(left) > 0 {
			return false, fmt.Errorf("programs are left: %+v", left)
		}

		if left := cgroupsWith(other.cgroups()); len(left) > 0 {
			return false, fmt.Errorf("cgroups are left: %v", left)
		}

		_, err := os.Stat(other.data())

		return os.IsNotExist(err), nil
	})
	require.Equal(t, before, stateOfMachine(t))
}

// requirePrograms requires that all of these programs run.
func requirePrograms(t *testing.T, programs []program, names ...string) {
	t.Helper()

	var found []string
	for _, p := range programs {
		found = append(found, p.name)
	}

	require.Subset(t, found, names)
	t.Logf("%d processes", len(programs))
}

// requireAcceleration requires that QEMU uses KVM where this machine has it.
func requireAcceleration(t *testing.T, programs []program) {
	t.Helper()

	want := map[bool]string{true: "kvm", false: "tcg"}[node.HasKVM()]

	for _, p := range programs {
		if p.name != "qemu-system-x86_64" {
			continue
		}

		command, err := os.ReadFile(filepath.Join("/proc", p.pid, "cmdline"))
		require.NoError(t, err)
		require.Contains(t, string(command), "\x00-accel\x00"+want+"\x00")
	}
}

// labState is what a lab publishes.
type labState struct {
	ProviderKubeconfig string `json:"providerKubeconfig"`
	Kubectl            string `json:"kubectl"`
	LogDir             string `json:"logDir"`
}

// readState returns the state of a lab, whose files are removed when the test ends.
func readState(t *testing.T, name string) (s labState) {
	t.Helper()

	cache, err := binaries.CacheDir()
	require.NoError(t, err)
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(cache, "state", name+"*")) // the pattern is valid
		for _, file := range append(files, filepath.Dir(s.LogDir)) {
			require.NoError(t, os.RemoveAll(file))
		}
	})

	data, err := os.ReadFile(filepath.Join(cache, "state", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &s))
	require.NotEmpty(t, s.LogDir)

	return s
}

func (s labState) data() string { return filepath.Join(filepath.Dir(s.LogDir), "data") }

func (s labState) cgroups() string { return "lab-" + filepath.Base(filepath.Dir(s.LogDir)) + "-" }

// startGuest runs a guest without the driver.
func (s labState) startGuest(t *testing.T) {
	t.Helper()

	kubectl := func(input string, args ...string) {
		command := outside(t.Context(), t, s.Kubectl, append([]string{"--kubeconfig=" + s.ProviderKubeconfig}, args...)...)
		command.Stdin = strings.NewReader(input)
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
	}

	kubectl(fmt.Sprintf(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"guest","namespace":"default"},"spec":{
		"domain":{"memory":{"guest":"128Mi"},"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}},
		"volumes":[{"name":"root","containerDisk":{"image":%q,"imagePullPolicy":"IfNotPresent"}}]}}`, images.Counter), "apply", "-f", "-")
	kubectl("", "wait", "--namespace=default", "--for=jsonpath={.status.phase}=Running", "vmi/guest", "--timeout=10m")
}
