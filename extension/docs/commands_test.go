// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// shellBlock matches a block of shell commands. In a list, it is indented.
var shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// pagesWithCommands are in an order in which a page writes the files that the next ones read.
func pagesWithCommands() []string {
	return []string{
		"../README.md",
		"development/local-setup.md",
		"operations/usage-as-operator.md",
		"usage/usage-as-end-user.md",
		"usage/workload-identity.md",
		"operations/deployment.md",
		"operations/migration.md",
		"usage/troubleshooting.md",
	}
}

// clusters are the variables with the kubeconfigs of the clusters.
func clusters() []string { return []string{"GARDEN", "RUNTIME", "SEED", "PROVIDER", "SHOOT"} }

// call is a call of a program by the commands of a page.
type call struct {
	page   string
	folder string
	args   []string // with the program
	input  []byte   // of `kubectl --filename=-`
}

func (c call) String() string { return c.page + ": " + strings.Join(c.args, " ") }

// recorder stands for kubectl, helm, make and go: it records each call, and prints the output that other commands
// read. `go list` runs. Files with content of a Secret are read.
const recorder = `#!/bin/sh -eu
call=$(mktemp "$CALLS/XXXXXXXXXX")
printf '%s\0' "$PWD" "${0##*/}" "$@" > "$call"
for arg; do case $arg in --from-file=*) cat "${arg##*=}" > /dev/null ;; esac; done
case "${0##*/} $*" in
*certificate-authority-data*) echo "$AUTHORITY" ;;
*.cluster.server*) printf https://api.example.com ;;
*" create token "*) echo token ;;
*--dry-run=client*) all=$*; name=${all#* generic }; printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n' "${name%% *}" ;;
*" -f -") cat > "$call.input" ;;
"make charts") mkdir -p bin/charts; echo chart > bin/charts/$(sed -n 's/^name: //p' extension/charts/gardener-extension-provider-kubevirt/Chart.yaml)-v0.tgz ;;
"go list "* | "go -C extension list "*) cd "$(pwd -P)"; exec "$GO" "$@" ;;
esac
`

// TestCommands runs the commands of all pages in bash, with programs that only record their calls. Each call must
// refer to files, charts, values, targets, kinds and objects that exist.
func TestCommands(t *testing.T) {
	t.Parallel()

	w := newWorkspace(t)

	for _, page := range pagesWithCommands() {
		w.run(t, page)
	}

	for _, page := range pages(t) {
		require.Equal(t, shellBlock.MatchString(content(t, page)), len(w.callsOf(page)) > 0, page)
	}

	known := knownObjects(t, w.calls)

	for _, c := range w.calls {
		require.NoError(t, known.fault(c), c)
	}

	w.requireKubeconfigs(t, known)
	requireRawChart(t, w.callsOf("operations/deployment.md"))
}

// workspace is a folder like that of the repository, into which the commands write.
type workspace struct {
	folder, programs, records string
	environment               []string

	calls       []call
	kubeconfigs map[string][]byte // by their files
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()

	folder := t.TempDir()
	w := &workspace{
		folder:      filepath.Join(folder, "repository"),
		programs:    filepath.Join(folder, "programs"),
		records:     filepath.Join(folder, "calls"),
		kubeconfigs: map[string][]byte{},
	}

	for _, folder := range []string{w.folder, w.programs, w.records, filepath.Join(w.folder, "bin")} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}

	for _, name := range []string{"Makefile", "extension", "kubernetes", "test", "go.mod"} {
		target, err := filepath.Abs("../../" + name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(target, filepath.Join(w.folder, name)))
	}

	for _, name := range []string{"kubectl", "helm", "make", "go"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.programs, name), []byte(recorder), 0o700))
	}

	program, err := exec.LookPath("go")
	require.NoError(t, err)

	w.environment = append(os.Environ(), "PATH="+w.programs+":"+os.Getenv("PATH"), "CALLS="+w.records, "GO="+program, "AUTHORITY=Y2E=")

	var functions string

	for _, cluster := range clusters() {
		w.environment = append(w.environment, cluster+"=/"+cluster)
		functions += strings.ToLower(cluster) + `() { kubectl --kubeconfig "$` + cluster + `" "$@"; }` + "\n"
	}

	// Package landscape tests the file of `make landscape`.
	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "bin/landscape.sh"), []byte(functions), 0o600))

	return w
}

// run runs each block of a page in a shell of its own, with the kubeconfigs of earlier blocks: users create those anew
// that a block has removed.
func (w *workspace) run(t *testing.T, page string) {
	t.Helper()

	for _, block := range shellBlock.FindAllStringSubmatch(content(t, page), -1) {
		for file, kubeconfig := range w.kubeconfigs {
			require.NoError(t, os.WriteFile(filepath.Join(w.folder, file), kubeconfig, 0o600))
		}

		commands := block[1]
		if page == "development/local-setup.md" {
			commands = "source bin/landscape.sh\n" + commands
		}

		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
		shell.Dir = w.folder
		shell.Env = w.environment

		output, err := shell.CombinedOutput()
		require.NoError(t, err, "%s: %s\n%s", page, commands, output)

		w.collect(t, page)
	}
}

// collect reads the calls and the kubeconfigs that a block has written.
func (w *workspace) collect(t *testing.T, page string) {
	t.Helper()

	records, err := filepath.Glob(w.records + "/*")
	require.NoError(t, err)

	for _, record := range records {
		if strings.HasSuffix(record, ".input") {
			continue
		}

		raw, err := os.ReadFile(record)
		require.NoError(t, err)

		fields := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
		c := call{page: page, folder: fields[0], args: fields[1:]}

		if c.input, err = os.ReadFile(record + ".input"); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}

		w.calls = append(w.calls, c)
	}

	require.NoError(t, os.RemoveAll(w.records))
	require.NoError(t, os.Mkdir(w.records, 0o700))

	files, err := filepath.Glob(w.folder + "/*.kubeconfig")
	require.NoError(t, err)

	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)

		w.kubeconfigs[filepath.Base(file)] = raw
	}
}

func (w *workspace) callsOf(page string) (found []call) {
	for _, c := range w.calls {
		if c.page == page {
			found = append(found, c)
		}
	}

	return found
}

// requireKubeconfigs requires the driver to accept the kubeconfig of the machines' account, with its namespace. The
// kubeconfig of the admission must name the file into which the chart mounts the token.
func (w *workspace) requireKubeconfigs(t *testing.T, known objects) {
	t.Helper()

	config, namespace, err := kubeconfig.RESTConfig(w.kubeconfigs["machines.kubeconfig"])
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com", config.Host)
	require.Equal(t, "token", config.BearerToken)
	require.Equal(t, []byte("ca"), config.CAData)
	require.Contains(t, known["namespaces"], namespace)
	require.Contains(t, known["keys of Secret core-kubevirt"], providerspec.SecretKeyKubeconfig)
	require.Contains(t, content(t, "../kubernetes/provider-namespace/kustomization.yaml"), "\nnamespace: "+namespace+"\n")

	admission, err := clientcmd.Load(w.kubeconfigs["admission.kubeconfig"])
	require.NoError(t, err)
	require.NoError(t, clientcmd.ConfirmUsable(*admission, ""))
	require.Equal(t, "token", admission.AuthInfos["admission"].TokenFile)
	require.Equal(t, []byte("ca"), admission.Clusters["garden"].CertificateAuthorityData)
}

// requireRawChart requires a command to apply the chart as part of the ControllerDeployment.
func requireRawChart(t *testing.T, calls []call) {
	t.Helper()

	for _, c := range calls {
		if !bytes.Contains(c.input, []byte("kind: ControllerDeployment")) {
			continue
		}

		deployment := &gardencorev1.ControllerDeployment{}
		require.NoError(t, yaml.UnmarshalStrict(documents(c.input)[0], deployment))
		require.Equal(t, "chart\n", string(deployment.Helm.RawChart))
		require.Nil(t, deployment.Helm.OCIRepository)

		return
	}

	require.Fail(t, "no command applies a chart")
}

// documents returns the documents of a manifest.
func documents(manifest []byte) (found [][]byte) {
	for _, document := range bytes.Split(append([]byte("\n"), manifest...), []byte("\n---\n")) {
		if content := map[string]any{}; yaml.Unmarshal(document, &content) != nil || len(content) > 0 {
			found = append(found, document)
		}
	}

	return found
}
