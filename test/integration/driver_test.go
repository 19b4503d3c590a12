package integration

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// TestLifeOfAMachine takes a machine of each kind of root volume from nothing to nothing.
func TestLifeOfAMachine(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		root   string
		// prepare makes what the root volume refers to, and names what that leaves in the namespace.
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

// TestForeignObjectsAreNeverTouched puts other people's objects where the driver's would be.
func TestForeignObjectsAreNeverTouched(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	foreign := map[string]string{"mcm.gardener.cloud/cluster": "another-shoot", "mcm.gardener.cloud/role": "node"}

	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: m.name(), Labels: foreign},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}
	vm, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), vm, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
	_, err = m.create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, codeOf(err))
	listed, err := m.list(t.Context(), d)
	require.NoError(t, err)
	require.Empty(t, listed)
	require.NoError(t, m.remove(t.Context(), d))
	require.Equal(t, vm.UID, s.vm(t, m.name()).UID)
	require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
	s.requireNothingLeft(t, "VirtualMachine "+m.name())

	other := s.newMachine("zone-a", importedRoot)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: other.name() + "-userdata", Labels: foreign}, StringData: map[string]string{"a": "b"}}
	_, err = s.kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)

	_, err = other.create(t.Context(), d)
	require.Equal(t, codes.AlreadyExists, codeOf(err))
	require.NoError(t, other.remove(t.Context(), d))
	s.requireNothingLeft(t, "VirtualMachine "+m.name(), "Secret "+secret.Name)
}

func TestTwoShootsInOneNamespaceDoNotNoticeEachOther(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	mine, theirs := s.newMachine("zone-a", importedRoot), s.newMachine("zone-a", importedRoot)
	theirs.class.ProviderSpec.Raw = []byte(replace(string(theirs.class.ProviderSpec.Raw), s.Namespace, s.Namespace+"-b"))

	for _, m := range []*machine{mine, theirs} {
		_, err := m.create(t.Context(), d)
		require.NoError(t, err)
	}

	for _, m := range []*machine{mine, theirs} {
		listed, err := m.list(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"kubevirt://" + m.name(): m.name()}, listed)
	}

	intruder := *mine
	intruder.machine = theirs.machine
	require.NoError(t, intruder.remove(t.Context(), d), "the other shoot's machine does not exist for this one")
	require.Nil(t, s.vm(t, theirs.name()).DeletionTimestamp)

	require.NoError(t, theirs.remove(t.Context(), d))
	require.NoError(t, mine.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

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

// TestOrphansAreSeenTwice asks as machine-controller-manager's safety controller does: without a Machine's UID.
func TestOrphansAreSeenTwice(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	s, d := newShoot(t), newDriver(settings{grace: time.Minute, clock: clock})
	m := s.newMachine("zone-a", importedRoot)

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	m.machine.UID = ""
	for range 3 {
		require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "the first sighting, and those soon after, only mark")
		require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
		clock.Step(3 * time.Minute)
	}

	clock.Step(25 * time.Hour)
	require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)), "sightings that far apart are no pair")
	clock.Step(11 * time.Minute)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func TestMachineOfAnEarlierLifeIsInTheWay(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", importedRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	hold := []byte(`{"metadata":{"finalizers":["test.example.com/hold"]}}`)
	_, err = vms.Patch(t.Context(), m.name(), "application/merge-patch+json", hold, metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, vms.Delete(t.Context(), m.name(), metav1.DeleteOptions{}))

	m.machine.UID = freshUID()
	_, err = m.status(t.Context(), d)
	require.Equal(t, codes.Aborted, codeOf(err))
	_, err = m.create(t.Context(), d)
	require.Equal(t, codes.Aborted, codeOf(err))

	release := []byte(`{"metadata":{"finalizers":[]}}`)
	_, err = vms.Patch(t.Context(), m.name(), "application/merge-patch+json", release, metav1.PatchOptions{})
	require.NoError(t, err)

	eventually(t, "the earlier machine is gone", func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)

		return codeOf(err) == codes.NotFound, nil
	})

	_, err = m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func TestProviderRefusals(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})

	tests := map[string]struct {
		reason string
		change func(*machine)
		want   codes.Code
		says   string
	}{
		"UnknownToProvider": {
			reason: "a field that this provider's KubeVirt does not know is refused, not dropped",
			change: func(m *machine) {
				m.class.ProviderSpec.Raw = s.spec("zone-a", `{"source":{"http":{"url":"https://x.example.com/a","checksum":"sha256:00"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`)
			},
			want: codes.InvalidArgument, says: "checksum",
		},
		"Webhook": {
			reason: "what KubeVirt refuses is passed on in its words",
			change: func(m *machine) {
				m.class.ProviderSpec.Raw = s.spec("zone-a", `{"source":{"http":{"url":"https://x.example.com/a"},"registry":{"url":"docker://a"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`)
			},
			want: codes.InvalidArgument, says: "denied the request",
		},
		"BadToken": {
			reason: "credentials that the provider refuses",
			change: func(m *machine) {
				m.secret.Data["kubeconfig"] = []byte(replace(string(m.secret.Data["kubeconfig"]), "token: ey", "token: no"))
			},
			want: codes.Unauthenticated, says: "Unauthorized",
		},
		"ForeignNamespace": {
			reason: "rights are namespaced",
			change: func(m *machine) {
				m.secret.Data["kubeconfig"] = []byte(replace(string(m.secret.Data["kubeconfig"]), "namespace: "+s.ProviderNamespace, "namespace: kube-system"))
			},
			want: codes.PermissionDenied, says: "forbidden",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := s.newMachine("zone-a", importedRoot)
			tc.change(m)

			_, err := m.create(t.Context(), d)
			require.Equal(t, tc.want, codeOf(err), "%s: %v", tc.reason, err)
			require.ErrorContains(t, err, tc.says, tc.reason)
		})
	}
}
