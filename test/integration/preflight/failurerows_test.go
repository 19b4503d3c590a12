// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/storage"
)

func capacityFailures() []harness.Failure {
	return []harness.Failure{
		{By: "no node in the zone", Zone: "zone-x", Want: "Unschedulable", Code: codes.ResourceExhausted},
		{By: "memory 500Gi", Spec: `{"memory":{"guest":"500Gi"}}`, Want: "Unschedulable", Code: codes.ResourceExhausted},
		{
			By:   "a GPU that no node has",
			Spec: `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"devices":{"gpus":[{"name":"gpu","deviceName":"nvidia.com/X"}]}}}}}}}`,
			Want: "InsufficientDevices", Code: codes.ResourceExhausted,
		},
		{By: "no node with KVM", Zone: suite.EmulatedZone, Want: "VirtualizationMissing", Code: codes.ResourceExhausted},
		{
			By: "quota on pods, for the launcher", Root: harness.CloneRoot, Provoke: func(t *testing.T, s *harness.Shoot) {
				t.Helper()
				s.ImportImage(t, "image")
				limitResource(t, s, "pods")
			}, Heal: unlimit, Want: "QuotaExceeded", Code: codes.ResourceExhausted,
		},
		{By: "quota on pods, for CDI", Root: harness.ImportedRoot, Provoke: limited("pods"), Heal: unlimit, Want: "QuotaExceeded", Code: codes.ResourceExhausted},
		{By: "quota on claims", Root: harness.ImportedRoot, Provoke: limited("persistentvolumeclaims"), Heal: unlimit, Want: "QuotaExceeded", Code: codes.ResourceExhausted},
		{
			By: "quota on virtual machines", Provoke: limited("count/virtualmachines.kubevirt.io"), Heal: unlimit,
			Want: "QuotaExceeded", Code: codes.ResourceExhausted,
		},
		{By: "quota on Secrets", Provoke: limited("count/secrets"), Heal: unlimit, Want: "QuotaExceeded", Code: codes.ResourceExhausted},
	}
}

func refusedFailures() []harness.Failure {
	return []harness.Failure{
		{
			By: "unknown instancetype", Heal: makeInstancetype, Want: "InstancetypeNotFound", Code: codes.FailedPrecondition,
			Spec: `{"cpu":null,"memory":null,"virtualMachineTemplate":{"spec":{"instancetype":{"name":"worker","kind":"VirtualMachineInstancetype"}}}}`,
		},
		{
			By: "unknown preference", Heal: makeInstancetype, Want: "PreferenceNotFound", Code: codes.FailedPrecondition,
			Spec: `{"virtualMachineTemplate":{"spec":{"preference":{"name":"worker","kind":"VirtualMachinePreference"}}}}`,
		},
		{
			By: "source in a namespace without permission", Want: "CloneForbidden", Code: codes.PermissionDenied,
			Root: `{"source":{"pvc":{"name":"image","namespace":"kube-public"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "unknown DataSource", Want: "DataSourceNotFound", Code: codes.FailedPrecondition,
			Root: `{"sourceRef":{"kind":"DataSource","name":"nosuch"},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "Pod Security restricted", Root: harness.ImportedRoot, Provoke: restrict("restricted"), Heal: func(t *testing.T, s *harness.Shoot) { t.Helper(); restrict("privileged")(t, s) },
			Want: "PodSecurityViolated", Code: codes.FailedPrecondition,
		},
		{
			By: "unknown priority class", Want: "PriorityClassNotFound", Code: codes.FailedPrecondition, Heal: makePriorityClass,
			Root: harness.CloneRoot, Provoke: withImageOnly, // CDI's pods have the class too.
			Spec: `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"priorityClassName":"failures"}}}}}`,
		},
		{
			By: "unknown network", Want: "NetworkNotFound", Code: codes.FailedPrecondition,
			Spec: `{"networks":[{"name":"nosuch"}]}`,
		},
		{
			By: "LimitRange with a small default", Provoke: limitDefault, Heal: func(t *testing.T, s *harness.Shoot) {
				t.Helper()
				require.NoError(t, s.Kube.CoreV1().LimitRanges(s.ProviderNamespace).Delete(t.Context(), "failures", metav1.DeleteOptions{}))
			}, Want: "LimitRangeViolated", Code: codes.FailedPrecondition,
		},
		{By: "bad token", Provoke: changeKubeconfig("token: ey", "token: no"), Want: "CredentialsRefused", Code: codes.Unauthenticated, Cut: true},
		{By: "no permissions", Provoke: removeRights, Want: "PermissionDenied", Code: codes.PermissionDenied, Cut: true},
		{By: "namespace terminating", Provoke: terminate, Want: "PreconditionFailed", Code: codes.FailedPrecondition, Cut: true},
		{By: "webhook down at create", Provoke: breakCreation, Heal: repairWebhook, Want: "ProviderUnavailable", Code: codes.Unavailable},
		{By: "webhook down for pods", Root: harness.CloneRoot, Provoke: func(t *testing.T, s *harness.Shoot) {
			t.Helper()
			s.ImportImage(t, "image")
			breakWebhook(admissionv1.Create, "", "pods")(t, s)
		}, Heal: repairWebhook, Want: "WebhookUnavailable", Code: codes.Unavailable},
	}
}

func storageFailures() []harness.Failure {
	return []harness.Failure{
		{
			By: "unknown storage class", Want: "StorageClassNotFound", Code: codes.FailedPrecondition,
			Root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"storage":{"storageClassName":"nosuch","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "unknown storage class, with modes", Want: "StorageClassNotFound", Code: codes.FailedPrecondition, Heal: makeStorageClass,
			Root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"failures","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "no clone source", Root: harness.CloneRoot, Heal: withImageOnly,
			Want: "CloneSourceNotFound", Code: codes.FailedPrecondition,
		},
		{
			By: "smaller than the source", Provoke: func(t *testing.T, s *harness.Shoot) { t.Helper(); s.ImportImage(t, "large") },
			Root: `{"source":{"pvc":{"name":"large"}},"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"immediate","resources":{"requests":{"storage":"500Mi"}}}}`,
			Want: "VolumeTooSmall", Code: codes.InvalidArgument,
		},
		{
			By: "image 404", Want: "ImageNotFound", Code: codes.FailedPrecondition,
			Root: `{"source":{"http":{"url":"https://images.example.com/404/worker.qcow2"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "image 404, on a class that binds late", Want: "ImageNotFound", Code: codes.FailedPrecondition,
			Root: `{"source":{"registry":{"url":"docker://registry.example.com/missing:1"}},"storage":{"storageClassName":"wait","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By: "clone in another zone than its source", Provoke: zonalImage, Root: zonalRoot, Zone: "zone-b",
			Want: "CloneZoneConflict", Code: codes.FailedPrecondition,
		},
		importFails("image 401", "Unable to connect to http data source: expected status code 200, got 401. Status: 401 Unauthorized", "ImageUnauthorized", codes.FailedPrecondition),
		importFails("image with an unknown CA", "Unable to connect to http data source: tls: failed to verify certificate: x509: certificate signed by unknown authority",
			"ImageCertificateUntrusted", codes.FailedPrecondition),
		importFails("image server unreachable", "Unable to connect to http data source: dial tcp: lookup images.example.com: no such host", "ImageUnreachable", codes.FailedPrecondition),
		importFails("image larger than the volume", "Unable to convert source data to target format: no space left on device", "VolumeTooSmall", codes.InvalidArgument),
		{
			By: "the source's own image 404", Provoke: harness.CreateBrokenImage, Root: harness.CloneRoot,
			Want: "ImageNotFound", Code: codes.FailedPrecondition,
		},
		{
			By: "room only in another zone than the volume's", Provoke: elsewhere, Want: "VolumeZoneConflict", Code: codes.FailedPrecondition,
			Root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"elsewhere","resources":{"requests":{"storage":"1Gi"}}}}`,
			Spec: `{"memory":{"guest":"100Gi"},"virtualMachineTemplate":{"spec":{"template":{"spec":{` + tolerateReserved() + `}}}}}`,
		},
		{
			By: "unknown claim", Want: "ClaimNotFound", Code: codes.FailedPrecondition, Heal: makeClaim,
			Spec: `{"additionalVolumes":[{"name":"data","volumeSource":{"persistentVolumeClaim":{"claimName":"nosuch"}}}]}`,
		},
	}
}

func startFailures() []harness.Failure {
	return []harness.Failure{
		stoppedFailure(),
		{By: "launcher image", Spec: faulty(behaviour.FaultImagePull), Want: "ImagePullFailed", Code: codes.FailedPrecondition},
		{By: "user data Secret deleted", Spoil: deleteSecret, Want: "SecretNotFound", Code: codes.FailedPrecondition},
		deadNodeFailure(),
	}
}

func faulty(f behaviour.Fault) string {
	return fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}}`, behaviour.FaultAnnotation, f)
}

// importFails is a row whose importer fails with this message until it is healed.
func importFails(by, message, want string, code codes.Code) harness.Failure {
	annotate := func(t *testing.T, s *harness.Shoot, value any) {
		t.Helper()
		s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportFaultAnnotation: value}})
	}

	return harness.Failure{
		By: by, Root: harness.ImportedRoot, Want: want, Code: code,
		Provoke: func(t *testing.T, s *harness.Shoot) { t.Helper(); annotate(t, s, message) },
		Heal:    func(t *testing.T, s *harness.Shoot) { t.Helper(); annotate(t, s, nil) },
	}
}

// limitDefault creates a LimitRange whose default limit is below the memory of a machine.
func limitDefault(t *testing.T, s *harness.Shoot) {
	t.Helper()

	_, err := s.Kube.CoreV1().LimitRanges(s.ProviderNamespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "failures"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			DefaultRequest: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func withImageOnly(t *testing.T, s *harness.Shoot) {
	t.Helper()
	s.ImportImage(t, "image")
}

func limited(what corev1.ResourceName) func(*testing.T, *harness.Shoot) {
	return func(t *testing.T, s *harness.Shoot) { t.Helper(); limitResource(t, s, what) }
}

// limitResource sets a quota of zero, and waits until it is enforced.
func limitResource(t *testing.T, s *harness.Shoot, what corev1.ResourceName) {
	t.Helper()

	quotas := s.Kube.CoreV1().ResourceQuotas(s.ProviderNamespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "failures"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the quota is enforced", func(ctx context.Context) (bool, error) {
		quota, err := quotas.Get(ctx, "failures", metav1.GetOptions{})

		return err == nil && len(quota.Status.Hard) > 0, err
	})
}

func unlimit(t *testing.T, s *harness.Shoot) {
	t.Helper()
	require.NoError(t, s.Kube.CoreV1().ResourceQuotas(s.ProviderNamespace).Delete(t.Context(), "failures", metav1.DeleteOptions{}))
}

func makeInstancetype(t *testing.T, s *harness.Shoot) {
	t.Helper()
	s.MakeInstancetype(t)
}

func restrict(level string) func(*testing.T, *harness.Shoot) {
	return func(t *testing.T, s *harness.Shoot) {
		t.Helper()
		s.PatchNamespace(t, map[string]any{"labels": map[string]any{"pod-security.kubernetes.io/enforce": level}})
	}
}

func makePriorityClass(t *testing.T, s *harness.Shoot) {
	t.Helper()

	classes := s.Kube.SchedulingV1().PriorityClasses()
	_, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "failures"}, Value: 1}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, classes.Delete(context.WithoutCancel(t.Context()), "failures", metav1.DeleteOptions{}))
	})
}

func makeStorageClass(t *testing.T, s *harness.Shoot) {
	t.Helper()
	makeStorageClassFor(t, s, "failures")
}

// elsewhere creates a storage class whose volumes are in another zone than the machines.
func elsewhere(t *testing.T, s *harness.Shoot) {
	t.Helper()
	makeStorageClassFor(t, s, "elsewhere", corev1.TopologySelectorTerm{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"zone-b"}}},
	})
}

func makeStorageClassFor(t *testing.T, s *harness.Shoot, name string, topologies ...corev1.TopologySelectorTerm) {
	t.Helper()

	classes := s.Kube.StorageV1().StorageClasses()
	_, err := classes.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: storage.Provisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate), AllowedTopologies: topologies,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, classes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
}

func makeClaim(t *testing.T, s *harness.Shoot) {
	t.Helper()

	_, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "nosuch"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("immediate"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// changeKubeconfig changes the shoot's kubeconfig for machines created later.
func changeKubeconfig(old, with string) func(*testing.T, *harness.Shoot) {
	return func(t *testing.T, s *harness.Shoot) {
		t.Helper()

		s.ProviderKubeconfig = []byte(harness.MustReplace(string(s.ProviderKubeconfig), old, with))
	}
}

func removeRights(t *testing.T, s *harness.Shoot) {
	t.Helper()
	s.ExpectDenials("the driver has no permissions")
	require.NoError(t, s.Kube.RbacV1().RoleBindings(s.ProviderNamespace).Delete(t.Context(), "machine-controller", metav1.DeleteOptions{}))
	s.DriverRight("create", "kubevirt.io", "virtualmachines").Await(t, false)
}

// terminate deletes the provider namespace, whose finalization is blocked, with the
// driver's identity and permissions.
func terminate(t *testing.T, s *harness.Shoot) {
	t.Helper()

	hold := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"finalizers": []string{"test.example.com/hold"}}})
	release := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})

	patch := func(ctx context.Context, data []byte) {
		_, err := s.Kube.CoreV1().ServiceAccounts(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = s.Kube.RbacV1().Roles(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = s.Kube.RbacV1().RoleBindings(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
	}

	s.ExpectDenials("the driver's account is deleted with its namespace")
	patch(t.Context(), hold)
	t.Cleanup(func() { patch(context.WithoutCancel(t.Context()), release) })
	require.NoError(t, s.Kube.CoreV1().Namespaces().Delete(t.Context(), s.ProviderNamespace, metav1.DeleteOptions{}))
}

func repairWebhook(t *testing.T, s *harness.Shoot) {
	t.Helper()
	require.NoError(t, s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), s.ProviderNamespace, metav1.DeleteOptions{}))
}

func deleteSecret(t *testing.T, s *harness.Shoot, m *harness.Machine) {
	t.Helper()
	require.NoError(t, s.Kube.CoreV1().Secrets(s.ProviderNamespace).Delete(t.Context(), m.Name()+"-userdata", metav1.DeleteOptions{}))
}

const zonalRoot = `{"source":{"pvc":{"name":"image"}},"storage":{"storageClassName":"zonal","resources":{"requests":{"storage":"1Gi"}}}}`

// zonalImage creates an image in zone-a that cannot be cloned in other zones.
func zonalImage(t *testing.T, s *harness.Shoot) {
	t.Helper()

	nodes, err := s.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: corev1.LabelTopologyZone + "=zone-a"})
	require.NoError(t, err)
	require.NotEmpty(t, nodes.Items)

	s.MakeImageOf(t, "https://images.example.com/worker.qcow2", "zonal", map[string]string{"volume.kubernetes.io/selected-node": nodes.Items[0].Name})
}

// breakCreation breaks the webhook for the shoot's new VirtualMachines.
func breakCreation(t *testing.T, s *harness.Shoot) {
	t.Helper()
	breakWebhook(admissionv1.Create, "kubevirt.io", "virtualmachines")(t, s)
	awaitWebhook(t, s, "failures.example.com")
}

// tolerateReserved returns the part of a machine's template that tolerates reserved nodes.
func tolerateReserved() string {
	return fmt.Sprintf(`"tolerations":[{"key":%q,"operator":"Exists"}]`, suite.Reserved)
}
