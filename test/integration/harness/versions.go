// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// PerKubeVirt holds an expectation for each minor version of KubeVirt in the lab, such as "1.9".
type PerKubeVirt[T any] map[string]T

// Get returns the expectation for the version that runs. It fails the test if there is none, so that
// a new version needs a decision for each table.
func (p PerKubeVirt[T]) Get(t *testing.T) T {
	t.Helper()

	return row(t, p, "KubeVirt", Lab().Binaries.KubeVirtVersion)
}

// PerCDI holds an expectation for each minor version of CDI in the lab, such as "1.65".
type PerCDI[T any] map[string]T

// Get returns the expectation for the version that runs, as PerKubeVirt does.
func (p PerCDI[T]) Get(t *testing.T) T {
	t.Helper()

	return row(t, p, "CDI", Lab().Binaries.CDIVersion)
}

func row[T any](t *testing.T, table map[string]T, component string, version binaries.Version) T {
	t.Helper()
	require.Contains(t, table, version.Minor(), "%s %s has no row in this table", component, version)

	return table[version.Minor()]
}

// BrokenSource is how an import fails from a source that must be repaired.
type BrokenSource struct {
	Message string // the importer's
	Token   string // the driver's
	// Final is set if CDI gives up the import.
	Final bool
}

// BrokenSources is the failure that is hardest to recover from. CDI gives up an import for a wrong
// checksum, which it verifies since 1.65 (pkg/controller/import-controller.go). An older CDI repeats
// every import.
var BrokenSources = PerCDI[BrokenSource]{
	"1.64": {Message: "Unable to process data: unexpected EOF", Token: "ImportFailed"},
	"1.65": {Message: "checksum mismatch: expected a, got b", Token: "ImageCorrupt", Final: true},
}
