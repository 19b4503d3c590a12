// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	t.Parallel()

	tls := []string{"--driver-tls-cert=a", "--driver-tls-key=b", "--driver-tls-ca=c"}
	tests := map[string]struct {
		args []string
		err  string
	}{
		"in this process":             {nil, ""},
		"with flags of the driver":    {[]string{"--unschedulable-grace=1s"}, ""},
		"with a wrong one":            {[]string{"--unschedulable-grace=-1s"}, "--unschedulable-grace"},
		"certificates without a use":  {tls, "--driver-tls-*"},
		"socket":                      {[]string{"--driver-endpoint=unix:///s"}, ""},
		"certificates for a socket":   {append([]string{"--driver-endpoint=unix:///s"}, tls...), "--driver-tls-*"},
		"flags without effect":        {[]string{"--driver-endpoint=unix:///s", "--unschedulable-grace=30s"}, "--unschedulable-grace has no effect"},
		"TCP":                         {append([]string{"--driver-endpoint=dns:///h:1"}, tls...), ""},
		"TCP without certificates":    {[]string{"--driver-endpoint=dns:///h:1"}, "requires --driver-tls-cert"},
		"a name for no certificate":   {[]string{"--driver-tls-server-name=h"}, "--driver-tls-*"},
		"another scheme":              {[]string{"--driver-endpoint=passthrough:///h:1"}, "must begin with unix:/// or dns:///"},
		"a socket's path that is not": {[]string{"--driver-endpoint=unix:s"}, "must begin with unix:/// or dns:///"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := newOptions()
			flags := pflag.NewFlagSet("machine-controller", pflag.ContinueOnError)
			o.addFlags(flags)
			require.NoError(t, flags.Parse(tc.args))

			err := o.validate()
			if tc.err == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorContains(t, err, tc.err)
		})
	}
}
