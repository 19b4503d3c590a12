// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
)

// assets maps names to paths of binaries the caller already has.
type assets map[string]string

func (a assets) path(name string) string { return a[name] }

// findAssets returns the usable binaries of a folder such as $KUBEBUILDER_ASSETS, for a lab with a
// minor version of Kubernetes. Unusable binaries are reported to progress and built instead.
func findAssets(ctx context.Context, folder, minor string, progress io.Writer) assets {
	found := assets{}
	if folder == "" {
		return found
	}
	usableAPIServer := func(output string) bool { return minorOfAPIServer(output) == minor }
	for name, usable := range map[string]func(output string) bool{"etcd": usableEtcd, "kube-apiserver": usableAPIServer} {
		path := filepath.Join(folder, name)
		output, err := exec.CommandContext(ctx, path, "--version").Output()
		switch {
		case err != nil:
			fmt.Fprintf(progress, "not using %s: %v\n", path, err)
		case !usable(string(output)):
			fmt.Fprintf(progress, "not using %s: it is %.60q\n", path, output)
		default:
			found[name] = path
		}
	}
	return found
}

func usableEtcd(output string) bool {
	return regexp.MustCompile(`(?m)^etcd Version: 3\.[5-9]\.`).MatchString(output)
}

// minorOfAPIServer returns the minor version in the output of kube-apiserver --version, or "". An API
// server without a version in its binary reports v0.0.0.
func minorOfAPIServer(output string) string {
	match := regexp.MustCompile(`^Kubernetes v(1\.\d+)\.\d+`).FindStringSubmatch(output)
	if match == nil {
		return ""
	}
	return match[1]
}
