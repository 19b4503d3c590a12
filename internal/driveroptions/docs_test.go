// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driveroptions_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

func TestAddFlags_FlagsInDocs(t *testing.T) {
	t.Parallel()

	flags := pflag.NewFlagSet("driver", pflag.ContinueOnError)
	driveroptions.New().AddFlags(flags)
	docs.RequireFlags(t, "The driver", flags)
}

// TestAddFlags_LogSerialConsole has three states: without the flag, the provider cluster decides.
func TestAddFlags_LogSerialConsole(t *testing.T) {
	t.Parallel()

	for arg, want := range map[string]*bool{
		"--unschedulable-grace=1s":   nil,
		"--log-serial-console":       new(true),
		"--log-serial-console=true":  new(true),
		"--log-serial-console=false": new(false),
	} {
		o := driveroptions.New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		require.NoError(t, flags.Parse([]string{arg}))
		require.Equal(t, want, o.Plugin.Allowed.LogConsole, arg)
		require.ErrorContains(t, flags.Parse([]string{"--log-serial-console=maybe"}), "true or false")
	}
}
