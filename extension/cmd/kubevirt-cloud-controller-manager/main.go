// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt-cloud-controller-manager runs Kubernetes' cloud controllers for a cluster whose Nodes are
// virtual machines of a provider cluster with KubeVirt. It runs in the control plane of a shoot, or anywhere
// else.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // for --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of requests and queues
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the version
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	command, err := newCommand(signals.SetupSignalHandler().Done())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(cli.Run(command))
}
