// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestLifeOfAMachine creates and deletes a machine with each kind of root volume.
func TestLifeOfAMachine(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		root   string
		// prepare creates the objects that the root volume refers to, and returns the names of
		// those that stay in the namespace.
		prepare func(*testing.T, *harness.Shoot) []string
	}{
		"RegistryImport": {reason: "an image from a registry, imported per machine", root: harness.ImportedRoot},
		"HTTPImport": {
			reason: "an image from a web server, on a class that binds late",
			root: `{"source":{"http":{"url":"https://images.example.com/worker.qcow2"}},
				"storage":{"storageClassName":"wait","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		"PVCClone": {
			reason:  "a clone of an existing claim, given as pvc, larger than the source",
			root:    `{"source":{"pvc":{"name":"image"}},"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"immediate","resources":{"requests":{"storage":"2Gi"}}}}`,
			prepare: withImage,
		},
		"DataSource": {
			reason:  "a clone of the target of a DataSource",
			root:    `{"sourceRef":{"kind":"DataSource","name":"worker"},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
			prepare: withDataSource,
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{Grace: time.Minute})

			var prepared []string
			if tc.prepare != nil {
				prepared = tc.prepare(t, s)
			}

			m := s.NewMachine("zone-b", tc.root)

			_, err := m.Status(t.Context(), d)
			require.Equal(t, codes.NotFound, harness.CodeOf(err), tc.reason)

			created, err := m.Create(t.Context(), d)
			require.NoError(t, err, tc.reason)
			require.Equal(t, "kubevirt://"+m.Name(), created.ProviderID)
			require.Equal(t, m.Name(), created.NodeName)

			m.Machine.Spec.ProviderID = created.ProviderID
			m.AwaitScheduled(t, d)
			s.RequireInZone(t, m.Name(), "zone-b")

			listed, err := m.List(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, map[string]string{created.ProviderID: m.Name()}, listed)

			require.NoError(t, m.Remove(t.Context(), d), tc.reason)
			s.RequireGone(t, m.Name())
			require.NoError(t, m.Remove(t.Context(), d), "the deletion of a missing machine succeeds")
			s.RequireNothingLeft(t, prepared...)
		})
	}
}

func withImage(t *testing.T, s *harness.Shoot) []string {
	t.Helper()
	s.ImportImage(t, "image")

	return []string{"DataVolume image", "PersistentVolumeClaim image"}
}

func withDataSource(t *testing.T, s *harness.Shoot) []string {
	t.Helper()

	left := withImage(t, s)
	source := &cdiv1beta1.DataSource{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec: cdiv1beta1.DataSourceSpec{Source: cdiv1beta1.DataSourceSource{
			PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image", Namespace: s.ProviderNamespace},
		}},
	}

	_, err := s.CDI.CdiV1beta1().DataSources(s.ProviderNamespace).Create(t.Context(), source, metav1.CreateOptions{})
	require.NoError(t, err)

	return left
}

func TestDefaultTopologyMeansNodesWithoutLabels(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("default", harness.ImportedRoot)
	m.Class.ProviderSpec.Raw = []byte(harness.MustReplace(string(m.Class.ProviderSpec.Raw), `"region":"local"`, `"region":"default"`))

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)
	s.RequireInZone(t, m.Name(), "")
	require.NoError(t, m.Remove(t.Context(), d))
}

func TestCreateMachineAdoptsItsOwn(t *testing.T) {
	t.Parallel()
	harness.EveryWay(t, createMachineAdoptsItsOwn)
}

func createMachineAdoptsItsOwn(t *testing.T, newDriver func(harness.Settings) driver.Driver) {
	t.Helper()

	s := harness.NewShoot(t)
	d := newDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.ImportedRoot)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	first := s.VM(t, m.Name())

	m.Secret.Data["userData"] = []byte("#cloud-config\n# another token\n")
	_, err = m.Create(t.Context(), d)
	require.NoError(t, err, "an interrupted call can be repeated")
	require.Equal(t, first.UID, s.VM(t, m.Name()).UID, "one machine, one VM")

	secret, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.Name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, m.Secret.Data["userData"], secret.Data["userdata"], "the last call's user data counts")

	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

// TestUnschedulableMachineIsReported creates a machine in a full zone.
func TestUnschedulableMachineIsReported(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: 2 * time.Second})
	m := s.NewMachine("zone-x", harness.EphemeralRoot) // An import has failures of its own with this grace period.

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	harness.Eventually(t, "the full zone is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.Status(ctx, d)
		require.Equal(t, codes.Uninitialized, harness.CodeOf(err), "only InitializeMachine reports failures")
		require.NotNil(t, resp)

		_, err = m.Initialize(ctx, d)
		if code := harness.CodeOf(err); code != codes.OK {
			require.Equal(t, codes.ResourceExhausted, code, "cluster-autoscaler must back off: %v", err)
			require.ErrorContains(t, err, "Unschedulable: 0/")

			return true, nil
		}

		return false, nil
	})

	require.NoError(t, m.Remove(t.Context(), d), "a machine that never ran is deleted like any other")
	s.RequireNothingLeft(t)
}

// TestAddressesWithoutTargetCluster checks that GetMachineStatus returns the addresses, since no
// later call requests them.
func TestAddressesWithoutTargetCluster(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Bootstrap: true})
	m := s.NewMachine("zone-a", harness.ImportedRoot)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)

	resp, err := m.Status(t.Context(), d)
	require.NoError(t, err)
	require.NotEmpty(t, resp.Addresses)
	require.Equal(t, corev1.NodeInternalIP, resp.Addresses[0].Type)
	require.NoError(t, m.Remove(t.Context(), d))
}

func TestMachineCreationTimeoutEndsTheLoop(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-x", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	_, err = m.Status(t.Context(), d)
	require.Equal(t, codes.Uninitialized, harness.CodeOf(err))

	m.Machine.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{MachineCreationTimeout: &metav1.Duration{Duration: time.Nanosecond}}
	harness.Eventually(t, "machine-controller-manager takes over", func(ctx context.Context) (bool, error) {
		_, err := m.Status(ctx, d)

		return err == nil, nil
	})
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}
