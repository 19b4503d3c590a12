// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

func TestServeOptions_FlagsInDocs(t *testing.T) {
	t.Parallel()

	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	others := pflag.NewFlagSet("others", pflag.ContinueOnError)
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	newServeOptions().addTo(all)
	driveroptions.New().AddFlags(others)
	logs.AddFlags(others)

	all.VisitAll(func(f *pflag.Flag) {
		if others.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})

	docs.RequireFlags(t, "`mcm-kubevirt serve`", own)
}
