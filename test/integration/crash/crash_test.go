// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestCrashMatrix injects each of matrixFaults into every call of the driver, and requires that
// machine-controller-manager's normal retries reach the desired state: one machine with the Secret
// of the last CreateMachine call, and no object after its deletion. It discovers the calls, so that
// it also covers new ones, and fails if no scenario makes a call under each of the faults.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()

	matrix := newMatrix()

	t.Cleanup(func() { t.Logf("calls x faults:\n%s", matrix) })

	// More at once would take as long in total, and longer for each: the control planes are
	// saturated.
	places := make(chan struct{}, 6)

	var running sync.WaitGroup

	for _, sc := range scenarios() {
		for _, faults := range matrixFaults() {
			places <- struct{}{}

			running.Go(func() {
				defer func() { <-places }()

				t.Run(sc.name+"/"+namesOf(faults), func(t *testing.T) { matrix.add(faults, sc.under(t, faults)) })
			})
		}
	}

	running.Wait()

	if matrix.runs == len(scenarios())*len(matrixFaults()) { // -run may have selected only some of them.
		matrix.requireComplete(t)
		matrix.requireRights(t)
		harness.CoverCalls(matrix.calls())
	}
}

// under runs the scenario with the faults, and returns the disturbed calls with their number of
// faults.
func (sc *scenario) under(t *testing.T, faults []harness.Fault) map[string]int {
	t.Helper()

	s := harness.NewShoot(t)
	injector := newFaultInjector(faults)
	sc.run(t, s, injector)

	return injector.calls()
}

// requireWhole requires that all objects of the machine exist once, and no others except the given
// ones.
func (r *replay) requireWhole(t *testing.T, s *harness.Shoot, besides ...string) {
	t.Helper()

	want := append([]string{
		"VirtualMachine " + r.machine.Name(), "VirtualMachineInstance " + r.machine.Name(), "Secret " + r.machine.Name() + "-userdata",
	}, besides...)

	vm := s.VM(t, r.machine.Name())
	for _, disk := range vm.Spec.DataVolumeTemplates {
		want = append(want, "DataVolume "+disk.Name, "PersistentVolumeClaim "+disk.Name)
	}

	if image := vm.Labels[v1alpha1.LabelGoldenImage]; image != "" {
		want = append(want, "DataVolume "+image, "PersistentVolumeClaim "+image)
	}

	for range vm.Spec.Template.Spec.AccessCredentials {
		want = append(want, "Secret "+render.SSHKeysSecretName(r.machine.Name()))
	}

	var have []string

	harness.Eventually(t, "CDI's temporary volumes are gone", func(ctx context.Context) (bool, error) {
		var err error

		have, err = s.Leftovers(ctx)

		return len(have) <= len(want), err
	})
	require.ElementsMatch(t, want, have)
	require.Equal(t, string(r.userData()), secretData(t, s, r.machine.Name()+"-userdata")["userdata"], "the user data of the last CreateMachine call")
}

func secretData(t *testing.T, s *harness.Shoot, name string) map[string]string {
	t.Helper()

	secret, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}

	return data
}
