// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// runnable matches a code block that is marked as runnable.
var runnable = regexp.MustCompile("(?ms)^```sh run\n(.*?)^```$")

// TestGettingStarted runs docs/getting-started.md block by block, with the shipped manifests in
// which only the namespaces are replaced by the shoot's. Since no kubelet can run the Deployment,
// the programs of its pod are started when it is applied.
func TestGettingStarted(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	page, err := os.ReadFile("../../../docs/getting-started.md")
	require.NoError(t, err)

	blocks := runnable.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(blocks), 12)

	reader := newReader(t, s)
	// The lab has already applied many of these objects to the shoot. Deleting them
	// makes each step necessary.
	reader.do(t, "kubectl --kubeconfig provider.kubeconfig delete --ignore-not-found -k kubernetes/provider-namespace\n"+
		"kubectl --namespace shoot--lab--demo delete roles,rolebindings --all")

	for _, block := range blocks {
		// The remaining objects are shared with other shoots, or belong to their accounts.
		commands := strings.ReplaceAll(block[1], "apply --server-side -k", "apply --server-side --force-conflicts -k")
		reader.do(t, commands)

		if strings.Contains(commands, "cloudprovider.yaml") && !strings.Contains(commands, "\nrm ") {
			reader.do(t, commands) // as for a new token
		}

		if strings.Contains(commands, "-k kubernetes/standalone") {
			startStandalone(t, s, "standalone")
		}
	}

	s.RequireClean(t)
}

// reader follows a page in a folder that looks like a checkout of the
// repository after `make build`.
type reader struct {
	folder string
	names  *strings.Replacer
	env    []string
}

// newReader returns a reader with the repository's manifests, its tools and both clusters.
func newReader(t *testing.T, s *harness.Shoot) *reader {
	t.Helper()

	folder := string(unpack(t, s))
	repository := filepath.Join(folder, "repository")
	require.NoError(t, os.MkdirAll(filepath.Join(repository, "bin"), 0o700))

	root, err := filepath.Abs("../../..")
	require.NoError(t, err)

	for name, target := range map[string]string{
		"kubernetes":       folder,
		"kubectl":          harness.Lab().Binaries.Kubectl,
		"bin/mcm-kubevirt": harness.RemoteDriver(),
		"go.mod":           filepath.Join(root, "go.mod"),
		"go.sum":           filepath.Join(root, "go.sum"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(repository, name)))
	}

	admin, err := os.ReadFile(harness.Lab().Provider.AdminKubeconfig)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(repository, "provider.kubeconfig"), admin, 0o600))

	return &reader{
		folder: repository,
		names:  strings.NewReplacer("shoot--lab--demo", s.Namespace, "shoot-machines", s.ProviderNamespace),
		env: append(os.Environ(),
			"PATH="+repository+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+repository, "KUBECONFIG="+harness.Lab().Control.AdminKubeconfig,
			// Without these, Go finds its module cache and settings through HOME.
			"GOENV="+goEnv(t, "GOENV"), "GOMODCACHE="+goEnv(t, "GOMODCACHE")),
	}
}

// goEnv returns a setting of the go command.
func goEnv(t *testing.T, name string) string {
	t.Helper()

	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)

	return strings.TrimSpace(string(out))
}

// do runs the commands of a block.
func (r *reader) do(t *testing.T, commands string) {
	t.Helper()

	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-euo", "pipefail", "-xc", r.names.Replace(commands))
	shell.Dir = r.folder
	shell.Env = r.env
	out, err := shell.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err, commands)
}
