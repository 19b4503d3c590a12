// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

func TestServeOptions(t *testing.T) {
	t.Parallel()

	tls := []string{"--tls-cert=a", "--tls-key=b", "--tls-client-ca=c", "--tls-client=d"}
	tests := map[string]struct {
		args []string
		err  string
	}{
		"defaults":            {nil, ""},
		"socket":              {[]string{"--listen=unix:///tmp/s"}, ""},
		"TCP":                 {append([]string{"--listen=tcp://:1"}, tls...), ""},
		"TCP without TLS":     {[]string{"--listen=tcp://:1"}, "requires --tls-cert"},
		"TCP without clients": {append([]string{"--listen=tcp://:1"}, tls[:3]...), "--tls-client"},
		"TCP and a comma":     {append([]string{"--listen=tcp://:1", "--tls-client=e,"}, tls...), "empty name"},
		"TLS on a socket":     {tls, "only allowed with --listen=tcp"},
		"elsewhere":           {[]string{"--listen=http://x:1"}, "--listen: endpoint"},
		"no calls":            {[]string{"--max-concurrent-calls=0"}, "--max-concurrent-calls"},
		"too many calls":      {[]string{"--max-concurrent-calls=100000"}, "--max-concurrent-calls"},
		"no timeout":          {[]string{"--machine-creation-timeout=0s"}, "--machine-creation-timeout"},
		"no folder":           {[]string{"--kubeconfig-dir=/nowhere"}, "--kubeconfig-dir: folder /nowhere does not exist; create it"},
		"no port":             {[]string{"--metrics-address=localhost"}, "--metrics-address"},
		"the driver's flags":  {[]string{"--orphan-grace-period=-1s", "--virtual-machine-template=some"}, "--orphan-grace-period must not be negative\n--virtual-machine-template"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o := newServeOptions()
			flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			o.addTo(flags)
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

// TestServe_FailsAtStart runs serve in processes of its own, because it sets up the logging of its
// process.
func TestServe_FailsAtStart(t *testing.T) {
	t.Parallel()

	require.Contains(t, serveFails(t, "--listen=tcp://:1"), "requires --tls-cert")
	require.Contains(t, serveFails(t, "--listen=tcp://127.0.0.1:0", "--tls-cert=/nowhere", "--tls-key=/nowhere", "--tls-client-ca=/nowhere", "--tls-client=a"),
		"/nowhere")
	require.Contains(t, serveFails(t, "--listen=unix:///nowhere/driver.sock", "--metrics-address=127.0.0.1:0"), "folder /nowhere does not exist: create it")
}

// serveFails returns the output of serve with a command line that it refuses.
func serveFails(t *testing.T, flags ...string) string {
	t.Helper()

	program := exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve"}, flags...)...)
	program.Env = append(os.Environ(), asProgram+"="+filepath.Join(t.TempDir(), "peak"))

	out, err := program.CombinedOutput()

	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, output.ExitUsage, exit.ExitCode(), "%s", out)

	return string(out)
}
