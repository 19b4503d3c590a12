// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const (
	technicalID = "shoot--garden-dev--johndoe"
	shootUID    = "5c5a1d9e-9f0e-4a38-9d6b-9fb0a1f4a0b1"
	namespace   = "my-shoot"
	// token is the credential in kubeconfigs: no result may contain it.
	token = "sensitive-token"
)

// request names the extension resources of the shoot.
var request = types.NamespacedName{Namespace: technicalID, Name: "johndoe"}

// server is an API server. Each path has the object of its response; others are not found.
type server map[string]any

// The lists of a provider cluster that a check reads.
const (
	machinesPath  = "/apis/kubevirt.io/v1/namespaces/" + namespace + "/virtualmachines"
	volumesPath   = "/apis/cdi.kubevirt.io/v1beta1/namespaces/" + namespace + "/datavolumes"
	kubeVirtsPath = "/apis/kubevirt.io/v1/kubevirts"
	cdisPath      = "/apis/cdi.kubevirt.io/v1beta1/cdis"
	nodesPath     = "/api/v1/nodes"
	quotasPath    = "/api/v1/namespaces/" + namespace + "/resourcequotas"
	classPath     = "/apis/storage.k8s.io/v1/storageclasses/nvme"
	reviewsPath   = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	rulesPath     = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
)

// healthyProvider is a provider cluster that can run machines.
func healthyProvider() server {
	return server{
		machinesPath:  &kubevirtv1.VirtualMachineList{},
		volumesPath:   &cdiv1beta1.DataVolumeList{},
		kubeVirtsPath: kubeVirtWith(kubevirtv1.KubeVirtCondition{Type: kubevirtv1.KubeVirtConditionAvailable, Status: corev1.ConditionTrue}),
		cdisPath:      &cdiv1beta1.CDIList{},
		nodesPath:     &corev1.NodeList{Items: []corev1.Node{{}}},
		quotasPath:    &corev1.ResourceQuotaList{},
		classPath:     &storagev1.StorageClass{},
		rulesPath:     &authorizationv1.SelfSubjectRulesReview{},
		reviewsPath:   reviewed(true),
	}
}

func kubeVirtWith(conditions ...kubevirtv1.KubeVirtCondition) *kubevirtv1.KubeVirtList {
	return &kubevirtv1.KubeVirtList{Items: []kubevirtv1.KubeVirt{{Status: kubevirtv1.KubeVirtStatus{Conditions: conditions}}}}
}

// reviewed is the response to an access review.
func reviewed(allowed bool) *authorizationv1.SelfSubjectAccessReview {
	return &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}
}

// failedCDI is a list with an installation as CDI's operator reports it after an error.
func failedCDI() any {
	type object = map[string]any

	return object{"items": []object{{"status": object{"conditions": []object{
		{"type": "Available", "status": "False"},
		{"type": "Progressing", "status": "False"},
		{"type": "Degraded", "status": "True", "reason": "CreateResources", "message": "no ServiceAccount"},
	}}}}}
}

// ServeHTTP implements http.Handler.
func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, found := s[r.URL.Path]
	if !found {
		response = status(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}

	w.Header().Set("Content-Type", "application/json")

	if failure, isStatus := response.(*metav1.Status); isStatus {
		w.WriteHeader(int(failure.Code))
	}

	if err := json.NewEncoder(w).Encode(response); err != nil {
		panic(err)
	}
}

func status(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     code,
		Reason:   reason,
		Message:  message,
	}
}

// forbidden is the response to an account without the permission.
func forbidden(resource string) *metav1.Status {
	return status(http.StatusForbidden, metav1.StatusReasonForbidden, resource+` is forbidden: User "a" cannot list resource`)
}

// start starts the server, and returns a kubeconfig for it.
func (s server) start(t *testing.T) string {
	t.Helper()

	running := httptest.NewTLSServer(s)
	t.Cleanup(running.Close)

	return kubeconfigOf(running)
}

func kubeconfigOf(running *httptest.Server) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: running.Certificate().Raw})

	return kubeconfig(running.URL, base64.StdEncoding.EncodeToString(ca))
}

func kubeconfig(server, ca string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": %q}}],
		"clusters": [{"name": "a", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "a", "user": {"token": %q}}]}`,
		namespace, server, ca, token)
}

// newSeed returns a seed with the shoot, the kubeconfig of its provider cluster, and more objects.
func newSeed(t *testing.T, kubeconfig string, objects ...client.Object) client.Client {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, extensionsv1alpha1.AddToScheme, machinev1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}

	raw := func(object any) runtime.RawExtension {
		encoded, err := json.Marshal(object)
		require.NoError(t, err)

		return runtime.RawExtension{Raw: encoded}
	}

	meta := metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}
	ref := corev1.SecretReference{Namespace: request.Namespace, Name: "cloudprovider"}
	version := gardencorev1beta1.SchemeGroupVersion.String()

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects,
		&extensionsv1alpha1.Infrastructure{ObjectMeta: meta, Spec: extensionsv1alpha1.InfrastructureSpec{SecretRef: ref}},
		&extensionsv1alpha1.Worker{ObjectMeta: meta, Spec: extensionsv1alpha1.WorkerSpec{SecretRef: ref}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: map[string][]byte{"kubeconfig": []byte(kubeconfig)}},
		&extensionsv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: request.Namespace},
			Spec: extensionsv1alpha1.ClusterSpec{
				Shoot: raw(&gardencorev1beta1.Shoot{
					TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Shoot"},
					Status:   gardencorev1beta1.ShootStatus{TechnicalID: technicalID, UID: shootUID},
					Spec: gardencorev1beta1.ShootSpec{Provider: gardencorev1beta1.Provider{Workers: []gardencorev1beta1.Worker{{
						Name:    "pool",
						Minimum: 2,
						Machine: gardencorev1beta1.Machine{Type: "standard-1"},
						Volume:  &gardencorev1beta1.Volume{Type: ptr.To("fast")},
						Zones:   []string{"a"},
					}}}},
				}),
				CloudProfile: raw(&gardencorev1beta1.CloudProfile{
					TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "CloudProfile"},
					Spec: gardencorev1beta1.CloudProfileSpec{
						VolumeTypes:  []gardencorev1beta1.VolumeType{{Name: "fast", Class: "nvme"}},
						MachineTypes: []gardencorev1beta1.MachineType{{Name: "standard-1", CPU: apiresource.MustParse("1"), Memory: apiresource.MustParse("4Gi")}},
					},
				}),
			},
		},
	)...).Build()
}
