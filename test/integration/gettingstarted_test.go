package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runnable matches a block of commands that a page says can be run.
var runnable = regexp.MustCompile("(?ms)^```sh run\n(.*?)^```$")

// machineControllerManager is where its files are on the web.
var machineControllerManager = regexp.MustCompile(`https://raw\.githubusercontent\.com/gardener/machine-controller-manager/(v[0-9.]+)`)

// TestGettingStarted does what docs/getting-started.md says, block by block, with the manifests as they are shipped but for the namespaces, which
// are the shoot's. There is no kubelet that could run the Deployment: when it is applied, what is in its pod is started instead.
func TestGettingStarted(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	page, err := os.ReadFile("../../docs/getting-started.md")
	require.NoError(t, err)

	blocks := runnable.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(blocks), 7)

	reader := s.newReader(t)
	// The lab has applied much of it to the shoot before. Without that, each step is needed.
	reader.do(t, "kubectl --kubeconfig provider.kubeconfig delete --ignore-not-found -k kubernetes/provider-namespace\n"+
		"kubectl --namespace shoot--lab--demo delete roles,rolebindings --all")

	for _, block := range blocks {
		// What is left is shared with other shoots, or their accounts.
		commands := strings.ReplaceAll(block[1], "apply --server-side -k", "apply --server-side --force-conflicts -k")
		reader.do(t, commands)

		if strings.Contains(commands, "-k kubernetes/standalone") {
			s.startStandalone(t, "standalone")
		}
	}

	s.requireClean(t)
}

// reader is somebody who follows a page.
type reader struct {
	folder string
	names  *strings.Replacer
	env    []string
}

// newReader returns a reader with the repository's manifests and both clusters at hand.
func (s *shoot) newReader(t *testing.T) *reader {
	t.Helper()

	folder := string(s.unpack(t))
	repository := filepath.Join(folder, "repository")
	require.NoError(t, os.Mkdir(repository, 0o700))
	require.NoError(t, os.Symlink(folder, filepath.Join(repository, "kubernetes")))
	require.NoError(t, os.Symlink(lab.Binaries.Kubectl, filepath.Join(repository, "kubectl")))
	require.NoError(t, os.Symlink(remoteDriver, filepath.Join(repository, "mcm-kubevirt")))

	admin, err := os.ReadFile(lab.Provider.AdminKubeconfig)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(repository, "provider.kubeconfig"), admin, 0o600))

	return &reader{
		folder: repository,
		names:  strings.NewReplacer("shoot--lab--demo", s.Namespace, "shoot-machines", s.ProviderNamespace),
		env: append(os.Environ(),
			"PATH="+repository+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+repository, "KUBECONFIG="+lab.Control.AdminKubeconfig),
	}
}

// do runs the commands of a block. What is on the web is in the module cache, in the version that go.mod names.
func (r *reader) do(t *testing.T, commands string) {
	t.Helper()

	for _, found := range machineControllerManager.FindAllStringSubmatch(commands, -1) {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/gardener/machine-controller-manager").Output()
		require.NoError(t, err)

		version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		require.Equal(t, version, found[1], "the page names another version")

		commands = strings.ReplaceAll(commands, found[0], dir)
	}

	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-euo", "pipefail", "-xc", r.names.Replace(commands))
	shell.Dir, shell.Env = r.folder, r.env
	out, err := shell.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err, commands)
}
