package integration

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
)

// TestLifeOfAMachine creates and deletes a machine with each kind of root volume.
func TestLifeOfAMachine(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		root   string
		// prepare creates the objects that the root volume refers to, and returns the names of
		// those that stay in the namespace.
		prepare func(*testing.T, *shoot) []string
	}{
		"RegistryImport": {reason: "an image from a registry, imported per machine", root: importedRoot},
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
			reason:  "a clone of what a DataSource points to",
			root:    `{"sourceRef":{"kind":"DataSource","name":"worker"},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
			prepare: withDataSource,
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, d := newShoot(t), newDriver(settings{grace: time.Minute})

			var prepared []string
			if tc.prepare != nil {
				prepared = tc.prepare(t, s)
			}

			m := s.newMachine("zone-b", tc.root)

			_, err := m.status(t.Context(), d)
			require.Equal(t, codes.NotFound, codeOf(err), tc.reason)

			created, err := m.create(t.Context(), d)
			require.NoError(t, err, tc.reason)
			require.Equal(t, "kubevirt://"+m.name(), created.ProviderID)
			require.Equal(t, m.name(), created.NodeName)

			m.machine.Spec.ProviderID = created.ProviderID
			m.awaitScheduled(t, d)
			s.requireInZone(t, m.name(), "zone-b")

			listed, err := m.list(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, map[string]string{created.ProviderID: m.name()}, listed)

			require.NoError(t, m.remove(t.Context(), d), tc.reason)
			s.requireGone(t, m.name())
			require.NoError(t, m.remove(t.Context(), d), "deleting what is gone is a success")
			s.requireNothingLeft(t, prepared...)
		})
	}
}

func withImage(t *testing.T, s *shoot) []string {
	t.Helper()
	s.importImage(t, "image")

	return []string{"DataVolume image", "PersistentVolumeClaim image"}
}

func withDataSource(t *testing.T, s *shoot) []string {
	t.Helper()

	left := withImage(t, s)
	source := &cdiv1beta1.DataSource{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec: cdiv1beta1.DataSourceSpec{Source: cdiv1beta1.DataSourceSource{
			PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image", Namespace: s.ProviderNamespace},
		}},
	}

	_, err := s.cdi.CdiV1beta1().DataSources(s.ProviderNamespace).Create(t.Context(), source, metav1.CreateOptions{})
	require.NoError(t, err)

	return left
}

func (s *shoot) requireInZone(t *testing.T, name, zone string) {
	t.Helper()

	instance, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	node, err := s.kube.CoreV1().Nodes().Get(t.Context(), instance.Status.NodeName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, zone, node.Labels[corev1.LabelTopologyZone])
}

func (s *shoot) requireGone(t *testing.T, name string) {
	t.Helper()

	left, err := s.left(t.Context())
	require.NoError(t, err)
	require.NotContains(t, left, "VirtualMachine "+name, "success means that nothing can run any more")
	require.NotContains(t, left, "VirtualMachineInstance "+name, "success means that nothing can run any more")
}

func TestDefaultTopologyMeansNodesWithoutLabels(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("default", importedRoot)
	m.class.ProviderSpec.Raw = []byte(replace(string(m.class.ProviderSpec.Raw), `"region":"local"`, `"region":"default"`))

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)
	s.requireInZone(t, m.name(), "")
	require.NoError(t, m.remove(t.Context(), d))
}

func TestCreateMachineAdoptsItsOwn(t *testing.T) {
	t.Parallel()
	everyWay(t, createMachineAdoptsItsOwn)
}

func createMachineAdoptsItsOwn(t *testing.T, newDriver func(settings) driver.Driver) {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	first := s.vm(t, m.name())

	m.secret.Data["userData"] = []byte("#cloud-config\n# another token\n")
	_, err = m.create(t.Context(), d)
	require.NoError(t, err, "a call that was cut off is repeated")
	require.Equal(t, first.UID, s.vm(t, m.name()).UID, "one machine, one VM")

	secret, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, m.secret.Data["userData"], secret.Data["userdata"], "the last call's user data counts")

	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

// TestUnschedulableMachineIsReported creates a machine in a full zone.
func TestUnschedulableMachineIsReported(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: 2 * time.Second})
	m := s.newMachine("zone-x", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	eventually(t, "the full zone is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.status(ctx, d)
		require.Equal(t, codes.Uninitialized, codeOf(err), "only InitializeMachine reports what is wrong")
		require.NotNil(t, resp)

		_, err = m.initialize(ctx, d)
		if code := codeOf(err); code != codes.OK {
			require.Equal(t, codes.ResourceExhausted, code, "cluster-autoscaler must back off: %v", err)
			require.ErrorContains(t, err, "Unschedulable: 0/")

			return true, nil
		}

		return false, nil
	})

	require.NoError(t, m.remove(t.Context(), d), "a machine that never ran is deleted like any other")
	s.requireNothingLeft(t)
}

// TestAddressesWithoutTargetCluster checks that GetMachineStatus returns the addresses, since no
// later call requests them.
func TestAddressesWithoutTargetCluster(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, bootstrap: true})
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)

	resp, err := m.status(t.Context(), d)
	require.NoError(t, err)
	require.NotEmpty(t, resp.Addresses)
	require.Equal(t, corev1.NodeInternalIP, resp.Addresses[0].Type)
	require.NoError(t, m.remove(t.Context(), d))
}

func TestMachineCreationTimeoutEndsTheLoop(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-x", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.Uninitialized, codeOf(err))

	m.machine.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{MachineCreationTimeout: &metav1.Duration{Duration: time.Nanosecond}}
	eventually(t, "machine-controller-manager takes over", func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)

		return err == nil, nil
	})
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}
