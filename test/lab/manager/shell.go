// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

func (s store) shellFile() string { return filepath.Join(s.folder, s.name+".sh") }

// saveShell writes a shell file to be sourced, with commands for both clusters. tool is
// the path of mcm-kubevirt.
func (s store) saveShell(st *state, tool string) error {
	folder := filepath.Dir(st.Shoot.SidecarKubeconfig)
	control := filepath.Join(folder, "admin-control.kubeconfig")
	provider := filepath.Join(folder, "admin-provider.kubeconfig")
	if err := withNamespace(st.ControlKubeconfig, control, st.Shoot.Namespace); err != nil {
		return err
	}
	if err := withNamespace(st.ProviderKubeconfig, provider, st.Shoot.ProviderNamespace); err != nil {
		return err
	}
	st.Shell = s.shellFile()
	text := strings.Join([]string{
		fmt.Sprintf("# Commands for the lab %q. For bash and zsh: source this file.", st.Name),
		"# control is kubectl for the control cluster, which has the Machines; target, for the shoot, which has the Nodes.",
		"# In this lab they are one cluster.",
		shellFunction("control", control, st.Kubectl),
		shellFunction("target", control, st.Kubectl),
		"# provider is kubectl for the provider cluster, which has the VirtualMachines.",
		shellFunction("provider", provider, st.Kubectl),
		"# mcm-kubevirt holds the operator's commands, for example: mcm-kubevirt diagnose MACHINE",
		shellFunction("mcm-kubevirt", control, tool),
	}, "\n") + "\n"
	if err := os.WriteFile(st.Shell, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write commands for a shell: %w", err)
	}
	return nil
}

// shellFunction defines a shell function that runs program with a kubeconfig.
func shellFunction(name, kubeconfig, program string) string {
	return fmt.Sprintf(`%s() { KUBECONFIG=%s %s "$@"; }`, name, quoted(kubeconfig), quoted(program))
}

// quoted returns text as a single shell word.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// withNamespace copies a kubeconfig and sets the namespace of its contexts.
func withNamespace(from, to, namespace string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
