package integration

import (
	"context"
	"encoding/json"
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
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

func capacityFailures() []failure {
	return []failure{
		{by: "no node in the zone", zone: "zone-x", want: "Unschedulable", code: codes.ResourceExhausted},
		{by: "memory 500Gi", spec: `{"memory":{"guest":"500Gi"}}`, want: "Unschedulable", code: codes.ResourceExhausted},
		{
			by:   "a GPU that no node has",
			spec: `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"devices":{"gpus":[{"name":"gpu","deviceName":"nvidia.com/X"}]}}}}}}}`,
			want: "InsufficientDevices", code: codes.ResourceExhausted,
		},
		{by: "no node with KVM", zone: emulatedZone, want: "VirtualizationMissing", code: codes.ResourceExhausted},
		{
			by: "quota on pods, for the launcher", root: cloneRoot, provoke: func(t *testing.T, s *shoot) {
				t.Helper()
				s.importImage(t, "image")
				s.limit(t, "pods")
			}, heal: unlimit, want: "QuotaExceeded", code: codes.ResourceExhausted,
		},
		{by: "quota on pods, for CDI", root: importedRoot, provoke: limited("pods"), heal: unlimit, want: "QuotaExceeded", code: codes.ResourceExhausted},
		{by: "quota on claims", root: importedRoot, provoke: limited("persistentvolumeclaims"), heal: unlimit, want: "QuotaExceeded", code: codes.ResourceExhausted},
		{
			by: "quota on virtual machines", provoke: limited("count/virtualmachines.kubevirt.io"), heal: unlimit,
			want: "QuotaExceeded", code: codes.ResourceExhausted,
		},
		{by: "quota on Secrets", provoke: limited("count/secrets"), heal: unlimit, want: "QuotaExceeded", code: codes.ResourceExhausted},
	}
}

func refusedFailures() []failure {
	return []failure{
		{
			by: "unknown instancetype", heal: makeInstancetype, want: "InstancetypeNotFound", code: codes.FailedPrecondition,
			spec: `{"cpu":null,"memory":null,"virtualMachineTemplate":{"spec":{"instancetype":{"name":"worker","kind":"VirtualMachineInstancetype"}}}}`,
		},
		{
			by: "unknown preference", heal: makeInstancetype, want: "PreferenceNotFound", code: codes.FailedPrecondition,
			spec: `{"virtualMachineTemplate":{"spec":{"preference":{"name":"worker","kind":"VirtualMachinePreference"}}}}`,
		},
		{
			by: "source in a namespace without right", want: "CloneForbidden", code: codes.PermissionDenied,
			root: `{"source":{"pvc":{"name":"image","namespace":"kube-public"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "unknown DataSource", want: "DataSourceNotFound", code: codes.FailedPrecondition,
			root: `{"sourceRef":{"kind":"DataSource","name":"nosuch"},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "Pod Security restricted", root: importedRoot, provoke: restrict("restricted"), heal: func(t *testing.T, s *shoot) { t.Helper(); restrict("privileged")(t, s) },
			want: "PodSecurityViolated", code: codes.FailedPrecondition,
		},
		{
			by: "unknown priority class", want: "PriorityClassNotFound", code: codes.FailedPrecondition, heal: makePriorityClass,
			root: cloneRoot, provoke: withImageOnly, // CDI's pods have the class too.
			spec: `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"priorityClassName":"failures"}}}}}`,
		},
		{
			by: "unknown network", want: "NetworkNotFound", code: codes.FailedPrecondition,
			spec: `{"networks":[{"name":"nosuch"}]}`,
		},
		{by: "bad token", provoke: changeKubeconfig("token: ey", "token: no"), want: "CredentialsRefused", code: codes.Unauthenticated, cut: true},
		{by: "no rights", provoke: removeRights, want: "PermissionDenied", code: codes.PermissionDenied, cut: true},
		{by: "namespace terminating", provoke: terminate, want: "PreconditionFailed", code: codes.FailedPrecondition, cut: true},
		{by: "webhook down at create", provoke: breakCreation, heal: repairWebhook, want: "ProviderUnavailable", code: codes.Unavailable},
		{by: "webhook down for pods", root: cloneRoot, provoke: func(t *testing.T, s *shoot) {
			t.Helper()
			s.importImage(t, "image")
			breakWebhook(admissionv1.Create, "", "pods")(t, s)
		}, heal: repairWebhook, want: "WebhookUnavailable", code: codes.Unavailable},
	}
}

func storageFailures() []failure {
	return []failure{
		{
			by: "unknown storage class", want: "StorageClassNotFound", code: codes.FailedPrecondition,
			root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"storage":{"storageClassName":"nosuch","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "unknown storage class, with modes", want: "StorageClassNotFound", code: codes.FailedPrecondition, heal: makeStorageClass,
			root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"failures","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "no clone source", root: cloneRoot, heal: withImageOnly,
			want: "CloneSourceNotFound", code: codes.FailedPrecondition,
		},
		{
			by: "smaller than the source", provoke: func(t *testing.T, s *shoot) { t.Helper(); s.importImage(t, "large") },
			root: `{"source":{"pvc":{"name":"large"}},"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"immediate","resources":{"requests":{"storage":"500Mi"}}}}`,
			want: "VolumeTooSmall", code: codes.InvalidArgument,
		},
		{
			by: "image 404", want: "ImageNotFound", code: codes.FailedPrecondition,
			root: `{"source":{"http":{"url":"https://images.example.com/404/worker.qcow2"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "image 404, on a class that binds late", want: "ImageNotFound", code: codes.FailedPrecondition,
			root: `{"source":{"registry":{"url":"docker://registry.example.com/missing:1"}},"storage":{"storageClassName":"wait","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			by: "clone in another zone than its source", provoke: zonalImage, root: zonalRoot, zone: "zone-b",
			want: "CloneZoneConflict", code: codes.FailedPrecondition,
		},
		importFails("image 401", "Unable to connect to http data source: expected status code 200, got 401. Status: 401 Unauthorized", "ImageUnauthorized", codes.FailedPrecondition),
		importFails("image with an unknown CA", "Unable to connect to http data source: tls: failed to verify certificate: x509: certificate signed by unknown authority",
			"ImageCertificateUntrusted", codes.FailedPrecondition),
		importFails("image server away", "Unable to connect to http data source: dial tcp: lookup images.example.com: no such host", "ImageUnreachable", codes.FailedPrecondition),
		importFails("image larger than the volume", "Unable to convert source data to target format: no space left on device", "VolumeTooSmall", codes.InvalidArgument),
		{
			by: "the source's own image 404", provoke: brokenImage, root: cloneRoot,
			want: "ImageNotFound", code: codes.FailedPrecondition,
		},
		{
			by: "no room but where the volume is not", provoke: elsewhere, want: "VolumeZoneConflict", code: codes.FailedPrecondition,
			root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
				"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"elsewhere","resources":{"requests":{"storage":"1Gi"}}}}`,
			spec: `{"memory":{"guest":"100Gi"},"virtualMachineTemplate":{"spec":{"template":{"spec":{` + tolerating() + `}}}}}`,
		},
		{
			by: "unknown claim", want: "ClaimNotFound", code: codes.FailedPrecondition, heal: makeClaim,
			spec: `{"additionalVolumes":[{"name":"data","volumeSource":{"persistentVolumeClaim":{"claimName":"nosuch"}}}]}`,
		},
	}
}

func startFailures() []failure {
	return []failure{
		{by: "launcher image", spec: faulty(dataplane.FaultImagePull), want: "ImagePullFailed", code: codes.FailedPrecondition},
		{by: "user data Secret deleted", spoil: deleteSecret, want: "SecretNotFound", code: codes.FailedPrecondition},
		deadNodeFailure(),
	}
}

func faulty(f dataplane.Fault) string {
	return fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}}`, dataplane.FaultAnnotation, f)
}

// importFails is a row whose importer fails with this message until it is healed.
func importFails(by, message, want string, code codes.Code) failure {
	annotate := func(t *testing.T, s *shoot, value any) {
		t.Helper()
		s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportFaultAnnotation: value}})
	}

	return failure{
		by: by, root: importedRoot, want: want, code: code,
		provoke: func(t *testing.T, s *shoot) { t.Helper(); annotate(t, s, message) },
		heal:    func(t *testing.T, s *shoot) { t.Helper(); annotate(t, s, nil) },
	}
}

func withImageOnly(t *testing.T, s *shoot) {
	t.Helper()
	s.importImage(t, "image")
}

func limited(what corev1.ResourceName) func(*testing.T, *shoot) {
	return func(t *testing.T, s *shoot) { t.Helper(); s.limit(t, what) }
}

// limit sets a quota of zero, and waits until it is enforced.
func (s *shoot) limit(t *testing.T, what corev1.ResourceName) {
	t.Helper()

	quotas := s.kube.CoreV1().ResourceQuotas(s.ProviderNamespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "failures"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, "the quota is enforced", func(ctx context.Context) (bool, error) {
		quota, err := quotas.Get(ctx, "failures", metav1.GetOptions{})

		return err == nil && len(quota.Status.Hard) > 0, err
	})
}

func unlimit(t *testing.T, s *shoot) {
	t.Helper()
	require.NoError(t, s.kube.CoreV1().ResourceQuotas(s.ProviderNamespace).Delete(t.Context(), "failures", metav1.DeleteOptions{}))
}

func makeInstancetype(t *testing.T, s *shoot) {
	t.Helper()
	s.makeInstancetype(t)
}

func restrict(level string) func(*testing.T, *shoot) {
	return func(t *testing.T, s *shoot) {
		t.Helper()
		s.patchNamespace(t, map[string]any{"labels": map[string]any{"pod-security.kubernetes.io/enforce": level}})
	}
}

func (s *shoot) patchNamespace(t *testing.T, metadata map[string]any) {
	t.Helper()

	_, err := s.kube.CoreV1().Namespaces().Patch(t.Context(), s.ProviderNamespace, types.MergePatchType, patchOf(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{})
	require.NoError(t, err)
}

func makePriorityClass(t *testing.T, s *shoot) {
	t.Helper()

	classes := s.kube.SchedulingV1().PriorityClasses()
	_, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "failures"}, Value: 1}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, classes.Delete(context.WithoutCancel(t.Context()), "failures", metav1.DeleteOptions{}))
	})
}

func makeStorageClass(t *testing.T, s *shoot) {
	t.Helper()
	s.makeStorageClass(t, "failures")
}

// elsewhere creates a storage class whose volumes are in another zone than the machines.
func elsewhere(t *testing.T, s *shoot) {
	t.Helper()
	s.makeStorageClass(t, "elsewhere", corev1.TopologySelectorTerm{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{"zone-b"}}},
	})
}

func (s *shoot) makeStorageClass(t *testing.T, name string, topologies ...corev1.TopologySelectorTerm) {
	t.Helper()

	classes := s.kube.StorageV1().StorageClasses()
	_, err := classes.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: dataplane.Provisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate), AllowedTopologies: topologies,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, classes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
}

func makeClaim(t *testing.T, s *shoot) {
	t.Helper()

	_, err := s.kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "nosuch"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("immediate"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// changeKubeconfig changes the shoot's kubeconfig for machines created later.
func changeKubeconfig(old, with string) func(*testing.T, *shoot) {
	return func(t *testing.T, s *shoot) {
		t.Helper()

		s.ProviderKubeconfig = []byte(replace(string(s.ProviderKubeconfig), old, with))
	}
}

func removeRights(t *testing.T, s *shoot) {
	t.Helper()
	s.expectDenials("the driver has no rights")
	require.NoError(t, s.kube.RbacV1().RoleBindings(s.ProviderNamespace).Delete(t.Context(), "machine-controller", metav1.DeleteOptions{}))
	s.driverRight("create", "kubevirt.io", "virtualmachines").await(t, false)
}

// terminate deletes the provider namespace, whose finalization is blocked, with the
// driver's identity and rights.
func terminate(t *testing.T, s *shoot) {
	t.Helper()

	hold := patchOf(t, map[string]any{"metadata": map[string]any{"finalizers": []string{"test.example.com/hold"}}})
	release := patchOf(t, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})

	patch := func(ctx context.Context, data []byte) {
		_, err := s.kube.CoreV1().ServiceAccounts(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = s.kube.RbacV1().Roles(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = s.kube.RbacV1().RoleBindings(s.ProviderNamespace).Patch(ctx, "machine-controller", types.MergePatchType, data, metav1.PatchOptions{})
		require.NoError(t, err)
	}

	s.expectDenials("the driver's account goes with its namespace")
	patch(t.Context(), hold)
	t.Cleanup(func() { patch(context.WithoutCancel(t.Context()), release) })
	require.NoError(t, s.kube.CoreV1().Namespaces().Delete(t.Context(), s.ProviderNamespace, metav1.DeleteOptions{}))
}

// breakWebhook registers an unreachable webhook for this shoot only.
func breakWebhook(operation admissionv1.OperationType, group, resources string) func(*testing.T, *shoot) {
	return func(t *testing.T, s *shoot) {
		t.Helper()

		webhooks := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err := webhooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: s.ProviderNamespace},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "failures.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
				ClientConfig:      admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				FailurePolicy:     new(admissionv1.Fail),
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.ProviderNamespace}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{operation},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resources}},
				}},
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = webhooks.Delete(context.WithoutCancel(t.Context()), s.ProviderNamespace, metav1.DeleteOptions{}) // If all went well, the row has already repaired it.
		})
	}
}

func repairWebhook(t *testing.T, s *shoot) {
	t.Helper()
	require.NoError(t, s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), s.ProviderNamespace, metav1.DeleteOptions{}))
}

func deleteSecret(t *testing.T, s *shoot, m *machine) {
	t.Helper()
	require.NoError(t, s.kube.CoreV1().Secrets(s.ProviderNamespace).Delete(t.Context(), m.name()+"-userdata", metav1.DeleteOptions{}))
}

func patchOf(t *testing.T, fields map[string]any) []byte {
	t.Helper()

	patch, err := json.Marshal(fields)
	require.NoError(t, err)

	return patch
}

// brokenImage creates the source DataVolume of cloneRoot, with a URL that does not exist.
func brokenImage(t *testing.T, s *shoot) {
	t.Helper()
	s.makeImage(t, "https://images.example.com/404/worker.qcow2")
}

const zonalRoot = `{"source":{"pvc":{"name":"image"}},"storage":{"storageClassName":"zonal","resources":{"requests":{"storage":"1Gi"}}}}`

// zonalImage creates an image in zone-a that cannot be cloned in other zones.
func zonalImage(t *testing.T, s *shoot) {
	t.Helper()

	nodes, err := s.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: corev1.LabelTopologyZone + "=zone-a"})
	require.NoError(t, err)
	require.NotEmpty(t, nodes.Items)

	s.makeImageOf(t, "https://images.example.com/worker.qcow2", "zonal", map[string]string{"volume.kubernetes.io/selected-node": nodes.Items[0].Name})
}

func (s *shoot) makeImage(t *testing.T, url string) {
	t.Helper()
	s.makeImageOf(t, url, "immediate", map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true"})
}

func (s *shoot) makeImageOf(t *testing.T, url, storageClass string, annotations map[string]string) {
	t.Helper()

	image := &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "image", Annotations: annotations},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: url}},
			Storage: &cdiv1beta1.StorageSpec{
				StorageClassName: new(storageClass),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
	}
	_, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)
}
