// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// providerKubeconfig is the variable with an administrator's kubeconfig of the provider cluster. It
// is set only for the suite.
const providerKubeconfig = "PROVIDER_SUITE_KUBECONFIG"

// workspace is the folder that the suite uses as a provider's repository.
type workspace struct {
	dir   string
	lab   *environment.Lab
	shoot *environment.Shoot
}

// newWorkspace creates the folder and, in the control cluster, the Secret of
// the suite's MachineClasses.
func newWorkspace(t *testing.T, lab *environment.Lab, shoot *environment.Shoot) *workspace {
	t.Helper()

	w := &workspace{dir: t.TempDir(), lab: lab, shoot: shoot}
	w.makeFolders(t)
	w.writeMakefiles(t)
	w.writeProcessList(t)
	w.writeMachineClasses(t)

	return w
}

const (
	workingDir = "test/integration/controller" // the suite's paths are relative to it
	mcmDir     = "dev/mcm"                     // replaces a clone of machine-controller-manager
	suiteDir   = ".ci/controllers-test"
	binDir     = "bin"
)

func (w *workspace) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *workspace) write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(w.path(name), []byte(content), 0o700))
}

// makeFolders creates all folders. The processes' logs are in the lab's folder.
func (w *workspace) makeFolders(t *testing.T) {
	t.Helper()

	for _, dir := range []string{workingDir, mcmDir + "/.git", suiteDir, binDir} {
		require.NoError(t, os.MkdirAll(w.path(dir), 0o700))
	}

	require.NoError(t, os.CopyFS(w.path(mcmDir+"/kubernetes/crds"), os.DirFS(w.lab.Binaries.MCMCRDs)))
	require.NoError(t, os.Symlink(w.lab.LogDir, w.path(suiteDir+"/logs")))
}

// CONTROL_NAMESPACE and LEADER_ELECT are the suite's variables. Each process has the kubeconfig of
// its own identity instead of the suite's, and the suite finds it by its first argument. The period
// of the check for too many Machines is longer than the suite's 300 ms. With 300 ms, the check
// writes to a MachineDeployment while machine-controller-manager scales it; if it loses that race
// between its label and its Event, the Event that the suite waits for is never sent.
const (
	startMCM = `.PHONY: start
start:
	@%s --control-kubeconfig=%[2]s --target-kubeconfig=%[2]s --namespace=$(CONTROL_NAMESPACE) --leader-elect=$(LEADER_ELECT) \
	--address=127.0.0.1 --port=%[3]d --safety-up=2 --safety-down=1 --machine-safety-overshooting-period=5s --v=3
`
	startSidecar = `.PHONY: start
start:
	@%s --control-kubeconfig=%[2]s --target-kubeconfig=%[2]s --namespace=$(CONTROL_NAMESPACE) --leader-elect=$(LEADER_ELECT) \
	--address=127.0.0.1 --port=%[3]d --machine-drain-timeout=5m --machine-safety-orphan-vms-period=1m --v=3
`
)

func (w *workspace) writeMakefiles(t *testing.T) {
	t.Helper()

	ports, err := process.FreePorts(t.Context(), 2)
	require.NoError(t, err)

	sidecar := w.path(binDir + "/machine-controller")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-buildvcs=false", "-o", sidecar, "./cmd/machine-controller")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	w.write(t, mcmDir+"/Makefile", fmt.Sprintf(startMCM, w.lab.Binaries.MCM, w.shoot.MCMKubeconfig, ports[0]))
	w.write(t, "Makefile", fmt.Sprintf(startSidecar, sidecar, w.shoot.SidecarKubeconfig, ports[1]))
}

// writeMachineClasses writes the shipped minimal MachineClass, and one with more
// memory for the suite's update.
func (w *workspace) writeMachineClasses(t *testing.T) {
	t.Helper()

	file, err := manifests.Manifests.ReadFile("machineclass/minimal.yaml")
	require.NoError(t, err)

	file = bytes.ReplaceAll(file, []byte("shoot--lab--demo"), []byte(w.shoot.Namespace))
	first, second, found := bytes.Cut(file, []byte("\n---\n"))
	require.True(t, found)

	var (
		class  v1alpha1.MachineClass
		secret corev1.Secret
	)

	require.NoError(t, yaml.UnmarshalStrict(first, &class))
	require.NoError(t, yaml.UnmarshalStrict(second, &secret))

	secret.Name, secret.StringData["kubeconfig"] = "test-mc-secret", string(w.shoot.ProviderKubeconfig)
	class.SecretRef.Name = secret.Name

	client, err := kubernetes.NewForConfig(w.lab.Control.Config())
	require.NoError(t, err)
	_, err = client.CoreV1().Secrets(w.shoot.Namespace).Create(t.Context(), &secret, metav1.CreateOptions{})
	require.NoError(t, err)

	w.writeMachineClass(t, &class, "test-mc-v1")

	more := bytes.Replace(class.ProviderSpec.Raw, []byte(`"4Gi"`), []byte(`"5Gi"`), 1)
	require.NotEqual(t, class.ProviderSpec.Raw, more)

	class.ProviderSpec.Raw = more
	w.writeMachineClass(t, &class, "test-mc-v2")
	w.write(t, suiteDir+"/machine-class-patch.json", fmt.Sprintf(`{"providerSpec":{"tags":{%q:%q}}}`, providerspec.TagRole, suiteRole))
}

func (w *workspace) writeMachineClass(t *testing.T, class *v1alpha1.MachineClass, name string) {
	t.Helper()

	class.Name = name
	content, err := yaml.Marshal(class)
	require.NoError(t, err)
	w.write(t, name+".yaml", string(content))
}
