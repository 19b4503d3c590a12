// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
)

// ShortGrace makes failures reportable soon: capacity failures after this, others after twice as
// long.
const ShortGrace = 2 * time.Second

// Failure is one row of the failure table.
type Failure struct {
	// By describes how it is provoked.
	By string
	// Root is the machine's root volume, Spec is overlaid on its ProviderSpec; both may be empty.
	// Rows that do not concern images and volumes need no root volume, and do not wait for one.
	Root, Spec string
	Zone       string
	// Provoke causes the failure before the machine is created, Spoil afterwards.
	Provoke func(*testing.T, *Shoot)
	Spoil   func(*testing.T, *Shoot, *Machine)
	// Heal ends the failure; nil: not possible.
	Heal func(*testing.T, *Shoot)
	// Want is the token of the report, Code its code.
	Want string
	Code codes.Code
	// Cut means that the driver can no longer reach its objects.
	Cut bool
}

// AwaitFailure calls the driver as machine-controller-manager does until a call fails, and returns
// the error. GetMachineStatus must not be that call.
func (s *Shoot) AwaitFailure(t *testing.T, f *Failure, m *Machine, d driver.Driver) error {
	t.Helper()

	if _, err := m.Create(t.Context(), d); err != nil {
		return err
	}

	if f.Spoil != nil {
		f.Spoil(t, s, m)
	}

	var failed error

	Eventually(t, f.Want+" is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.Status(ctx, d)
		require.Equal(t, codes.Uninitialized, CodeOf(err), "only InitializeMachine reports failures, and machine-controller-manager does not call it after OK")
		require.NotNil(t, resp)

		_, failed = m.Initialize(ctx, d)

		return failed != nil && !isPassing(failed.Error(), f.Want), nil
	})

	return failed
}

// isPassing reports whether a failure ends by itself, and is not the wanted one. The source of a clone
// is missing while its golden image is imported: the driver knows that, unless it could not read the
// image in time.
func isPassing(failure, want string) bool {
	const sourceMissing = "CloneSourceNotFound"

	return IsImporterStarting(failure) || (want != sourceMissing && strings.Contains(failure, sourceMissing+": "))
}

// IsImporterStarting reports whether a failure concerns the start of CDI's importer: its pod waits for
// the scheduler like every pod, and CDI creates it a second time when its cache is old (ErrStartingPod,
// in HandleFailedPod of CDI's pkg/controller/common/util.go). Both end by themselves. They are failures
// only because of the tests' short grace period, and no test expects them. An exceeded quota has the
// same message, but another token.
func IsImporterStarting(failure string) bool {
	return strings.Contains(failure, "Importer pod cannot be scheduled") ||
		strings.Contains(failure, "ImportFailed: ") && strings.Contains(failure, "Error starting pod 'importer-")
}
