// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// writeShell writes a file to be sourced, with the kubeconfigs of the clusters, and a command for each. It returns a
// function that removes the file.
func writeShell(file, kubectl, helm string, kubeconfigs seed.Kubeconfigs) (func() error, error) {
	lines := []string{
		"# The clusters of `make landscape`. For bash and zsh: source this file.",
		"# Kubeconfigs. The seed is also the runtime cluster of the garden. In this landscape, the shoot is the cluster of the garden.",
	}

	for _, cluster := range []struct{ name, kubeconfig string }{
		{"GARDEN", kubeconfigs.Garden}, {"RUNTIME", kubeconfigs.Seed}, {"SEED", kubeconfigs.Seed}, {"PROVIDER", kubeconfigs.Provider}, {"SHOOT", kubeconfigs.Target},
	} {
		lines = append(lines, fmt.Sprintf("export %s=%s", cluster.name, quoted(cluster.kubeconfig)))
	}

	lines = append(lines, "# garden, runtime, seed, provider and shoot are kubectl for these clusters.")
	for _, name := range []string{"garden", "runtime", "seed", "provider", "shoot"} {
		lines = append(lines, fmt.Sprintf(`%s() { kubectl --kubeconfig "$%s" "$@"; }`, name, strings.ToUpper(name)))
	}

	lines = append(lines,
		fmt.Sprintf(`export PATH=%s:"$PATH"`, quoted(filepath.Dir(kubectl))),
		"# Helm, unless it is installed.",
		fmt.Sprintf(`command -v helm >/dev/null || helm() { %s "$@"; }`, helm),
	)

	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write commands for a shell: %w", err)
	}

	return func() error { return os.Remove(file) }, nil
}

// quoted returns text as a single shell word.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// explain prints the next steps.
func (l *landscape) explain(file string) {
	for _, line := range []string{
		"",
		"The landscape is running. Logs of its processes: " + l.seed.Folder,
		"For its commands in another shell (bash or zsh), in the folder of the repository:",
		"  source " + file,
		"",
		"  garden get seeds             # kubectl for the virtual garden cluster: Shoots, CloudProfiles, ControllerRegistrations",
		"  seed get namespaces          # kubectl for the seed, which is also the runtime cluster of the garden",
		"  provider get nodes           # kubectl for the provider cluster: VirtualMachines",
		"  shoot get nodes              # kubectl for the shoot",
		"",
		"Next steps, with the variables GARDEN, RUNTIME, SEED, PROVIDER and SHOOT, which are the kubeconfigs:",
		"  1. install the extension                        extension/docs/operations/deployment.md#without-gardener-operator",
		"  2. permissions in the provider cluster          extension/docs/operations/usage-as-operator.md#permissions",
		"  3. create a CloudProfile                        extension/docs/operations/usage-as-operator.md#cloudprofile",
		"  4. create a project, credentials and a Shoot    extension/docs/usage/usage-as-end-user.md#credentials",
		"extension/docs/development/local-setup.md describes each step, and which parts are simulated.",
		"",
		"Ctrl-C stops the landscape and removes its data. Below: what this program does for Gardener's components.",
		"",
	} {
		l.out.Line("%s", line)
	}
}
