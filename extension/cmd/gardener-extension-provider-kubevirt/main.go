// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command gardener-extension-provider-kubevirt runs the controllers and webhooks of Gardener's
// provider extension for KubeVirt in a seed.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/gardener/gardener/pkg/logger"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

// gcPercent is the garbage collector's target, unless GOGC sets another. Most of the memory is Gardener's
// library and the cache; after a start, the checks of all shoots allocate at the same time.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	log.SetLogger(logger.MustNewZapLogger(logger.InfoLevel, logger.FormatJSON))

	if err := newCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
