// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driveroptions_test

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

func TestAddFlags_FlagsInDocs(t *testing.T) {
	t.Parallel()

	flags := pflag.NewFlagSet("driver", pflag.ContinueOnError)
	driveroptions.New().AddFlags(flags)
	docs.RequireFlags(t, "The driver", flags)
}
