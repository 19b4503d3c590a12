// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	clienttransport "k8s.io/client-go/transport"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// replay calls the driver for one machine as machine-controller-manager does, in its order and with
// its rules for codes, but without its waits of 3 and 10 minutes
// (pkg/util/provider/machinecontroller/machine.go and machine_util.go). A process that died is
// replaced by a new one, which knows only persisted state.
type replay struct {
	machine *harness.Machine

	injector *faultInjector
	settings harness.Settings
	driver   driver.Driver

	// created counts the calls of CreateMachine. Each has different user data, as
	// bootstrap tokens are replaced.
	created int
	// expected is a failure that no fault causes, and told records whether this
	// process has reported it.
	expected report
	told     bool
	// passing are the tokens of failures that may also be seen temporarily.
	passing []string
	// codes counts the codes that machine-controller-manager would have seen.
	codes map[string]int
}

// report is an error of the driver.
type report struct {
	// token is the prefix of its text.
	token string
	// names is part of the text if the driver could read all the objects it needs.
	names string
}

func newReplay(t *testing.T, m *harness.Machine, injector *faultInjector, settings harness.Settings) *replay {
	t.Helper()

	r := &replay{machine: m, injector: injector, codes: map[string]int{}}
	r.restart(settings)
	t.Cleanup(func() { t.Logf("%d CreateMachine calls; %v", r.created, r.codes) })

	return r
}

// restart starts the next process with new settings.
func (r *replay) restart(settings harness.Settings) {
	settings.Wrap = clienttransport.Wrappers(settings.Wrap, r.injector.wrap)
	r.settings = settings
	r.next()
}

// next starts the next process with the current settings.
func (r *replay) next() {
	r.driver = harness.NewDriver(r.settings)
	r.told = false
}

// call runs one method of the driver. If the process dies during the call, there is no result.
func (r *replay) call(t *testing.T, method string, do func(context.Context) error) (code codes.Code, died bool) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	r.injector.during(cancel)

	err := do(ctx)

	if r.injector.revive() {
		r.next()

		return codes.Unknown, true
	}

	if code := harness.CodeOf(err); code != codes.OK {
		r.codes[method+": "+code.String()]++
		r.requireSoon(t, method, err)
	}

	return harness.CodeOf(err), false
}

// requireSoon requires an error after which machine-controller-manager retries within seconds. A
// fault that passes at once must not be visible, and no fault may change the expected failure.
func (r *replay) requireSoon(t *testing.T, method string, err error) {
	t.Helper()

	code := harness.CodeOf(err)

	switch {
	case method == "GetMachineStatus" && (code == codes.NotFound || code == codes.Uninitialized):
	case r.expected.token != "" && strings.Contains(err.Error(), "["+r.expected.token+": "):
		r.told = r.told || strings.Contains(err.Error(), r.expected.names)
	case slices.ContainsFunc(r.passing, func(token string) bool { return strings.Contains(err.Error(), "["+token+": ") }):
	default:
		require.True(t, r.injector.sawConflict(), "%s: %v", method, err)
		require.Equal(t, codes.Aborted, code, method)
	}
}

// until repeats a pass until the failure was reported and the faults were
// injected into these calls.
func (r *replay) until(t *testing.T, expected report, hit []string, pass func(*testing.T)) {
	t.Helper()

	r.expected = expected

	passUntil(t, expected.token+" is reported", func(t *testing.T) bool {
		t.Helper()
		pass(t)

		return r.told && r.injector.hasHit(hit...)
	})
}

// passUntil repeats a pass until it returns true.
func passUntil(t *testing.T, what string, pass func(*testing.T) bool) {
	t.Helper()
	harness.Eventually(t, what, func(context.Context) (bool, error) { return pass(t), nil })
}

// atOnce repeats a pass until it returns true, without pauses between the passes.
func (r *replay) atOnce(t *testing.T, what string, pass func(*testing.T) bool) {
	t.Helper()

	limited, cancel := context.WithTimeout(t.Context(), harness.Settled)
	defer cancel()

	for !pass(t) {
		require.NoError(t, limited.Err(), "machine-controller-manager keeps retrying, waiting until %s; codes: %v", what, r.codes)
	}
}

// create repeats the creation pass until the machine exists.
func (r *replay) create(t *testing.T) {
	t.Helper()
	r.atOnce(t, "the machine is there", r.creationPass)
}

// creationPass reports whether the machine exists.
func (r *replay) creationPass(t *testing.T) bool {
	t.Helper()

	var found *driver.GetMachineStatusResponse

	code, died := r.call(t, "GetMachineStatus", func(ctx context.Context) error {
		var err error

		found, err = r.machine.Status(ctx, r.driver)

		return err
	})
	if died {
		return false
	}

	switch code {
	case codes.OK:
		// A machine whose creation failed at the end is adopted.
		require.Equal(t, "kubevirt://"+r.machine.Name(), found.ProviderID)
		r.persist()

		return true
	case codes.NotFound:
		require.Empty(t, r.machine.Machine.Spec.ProviderID, "machine-controller-manager would never create the machine again")
		r.createPass(t)
	case codes.Uninitialized:
		// machine-controller-manager persists the provider ID from the response
		// returned with the error.
		r.persist()
		r.initializePass(t)
	default:
	}

	return false
}

func (r *replay) createPass(t *testing.T) {
	t.Helper()

	r.created++
	r.machine.Secret.Data["userData"] = r.userData()

	code, died := r.call(t, "CreateMachine", func(ctx context.Context) error {
		_, err := r.machine.Create(ctx, r.driver)

		return err
	})
	if died || code != codes.OK {
		return
	}

	r.persist()
	r.initializePass(t)
}

func (r *replay) initializePass(t *testing.T) {
	t.Helper()

	r.call(t, "InitializeMachine", func(ctx context.Context) error {
		_, err := r.machine.Initialize(ctx, r.driver)

		return err
	})
}

func (r *replay) persist() {
	changed := r.machine.Machine.DeepCopy() // The driver may still use the old one.
	changed.Spec.ProviderID = "kubevirt://" + changed.Name
	r.machine.Machine = changed
}

func (r *replay) userData() []byte {
	return fmt.Appendf(nil, "#cloud-config\n# bootstrap token %d\n", r.created)
}

// remove repeats DeleteMachine until it succeeds or finds no machine.
func (r *replay) remove(t *testing.T) {
	t.Helper()
	r.atOnce(t, "the machine is gone", r.deletionPass)
}

// deletionPass reports whether the machine is gone.
func (r *replay) deletionPass(t *testing.T) bool {
	t.Helper()

	code, died := r.call(t, "DeleteMachine", func(ctx context.Context) error {
		return r.machine.Remove(ctx, r.driver)
	})

	return !died && (code == codes.OK || code == codes.NotFound)
}

// list repeats ListMachines until it succeeds.
func (r *replay) list(t *testing.T) map[string]string {
	t.Helper()

	var listed map[string]string

	r.atOnce(t, "ListMachines succeeds", func(t *testing.T) bool {
		t.Helper()

		code, died := r.call(t, "ListMachines", func(ctx context.Context) error {
			var err error

			listed, err = r.machine.List(ctx, r.driver)

			return err
		})

		return !died && code == codes.OK
	})

	return listed
}
