// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt-provider-proxy is the way of cloud-controller-manager and the CSI driver to the
// provider cluster. It runs in their pods.
package main

import (
	"fmt"
	"os"

	"github.com/gardener/gardener/pkg/logger"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	log := logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON)

	if err := newCommand(log).ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
