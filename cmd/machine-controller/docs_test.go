// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

func TestOptions_FlagsInDocs(t *testing.T) {
	t.Parallel()

	o := newOptions()
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	remote := pflag.NewFlagSet("remote", pflag.ContinueOnError)
	o.addFlags(all)
	o.remote.addFlags(remote)

	docs.RequireFlags(t, "Evacuation", o.evacuationFlags)
	docs.RequireFlags(t, "A driver over gRPC", remote)
}
