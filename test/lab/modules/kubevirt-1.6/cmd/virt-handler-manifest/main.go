// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command virt-handler-manifest prints the DaemonSet of virt-handler as KubeVirt's operator would create it.
//
// The lab's build runs it once and stores the output; the lab adapts it to its nodes and applies it. It knows nothing of the lab,
// except the names of its images.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
	operatorutil "kubevirt.io/kubevirt/pkg/virt-operator/util"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "virt-handler-manifest:", err)
		os.Exit(1)
	}
}

// run prints the DaemonSet. KubeVirt's code reads the names of the images from the environment.
func run() error {
	version, err := kubeVirtVersion()
	if err != nil {
		return err
	}
	for variable, image := range map[string]string{
		"VIRT_OPERATOR_IMAGE": "virt-operator",
		"VIRT_HANDLER_IMAGE":  "virt-handler",
		"VIRT_LAUNCHER_IMAGE": "virt-launcher",
	} {
		if err := os.Setenv(variable, "lab.local/"+image+":"+version); err != nil {
			return fmt.Errorf("set %s: %w", variable, err)
		}
	}
	kubeVirt := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	strategy, err := install.GenerateCurrentInstallStrategy(operatorutil.GetTargetConfigFromKV(kubeVirt), "", "kubevirt")
	if err != nil {
		return fmt.Errorf("make the DaemonSet: %w", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(strategy.DaemonSets()[0]); err != nil {
		return fmt.Errorf("encode the DaemonSet: %w", err)
	}
	return nil
}

func kubeVirtVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("read the versions of the modules: this program has none")
	}
	for _, module := range info.Deps {
		if module.Path == "kubevirt.io/kubevirt" {
			return module.Version, nil
		}
	}
	return "", errors.New("read the versions of the modules: kubevirt.io/kubevirt is not among them")
}
