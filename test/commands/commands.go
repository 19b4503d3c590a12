// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package commands runs the commands of mcm-kubevirt in tests, with manifests and API servers whose responses are
// fixed. Tests of the packages in tools and of cmd/mcm-kubevirt call it. It must not depend on the commands.
package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Shipped is a file with manifests for new users.
const Shipped = "../../kubernetes/example/machineclasses.yaml"

// Head is the beginning of a MachineClass, without its providerSpec.
const Head = `apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: {name: c, namespace: ns}
secretRef: {name: s, namespace: ns}
`

// Valid is a MachineClass without errors.
const Valid = Head + `providerSpec:
  region: r
  zone: z
  tags: {mcm.gardener.cloud/cluster: c, mcm.gardener.cloud/role: node}
  memory: {guest: 1Gi}
  rootVolume: {containerDisk: {image: example.com/image}}
`

// Run runs a command line, whose first argument is the name of a command, with a text as standard input. It returns the
// standard output.
func Run(t *testing.T, stdin string, args []string, constructors ...func(genericiooptions.IOStreams) *cobra.Command) (string, error) {
	t.Helper()

	var out bytes.Buffer

	root := &cobra.Command{Use: "mcm-kubevirt", SilenceUsage: true, SilenceErrors: true}
	for _, newCommand := range constructors {
		root.AddCommand(newCommand(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &out}))
	}

	root.SetArgs(args)
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())

	return out.String(), err
}

// Write writes a file and returns its path.
func Write(t *testing.T, name, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	return path
}
