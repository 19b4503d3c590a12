// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtfake "kubevirt.io/client-go/kubevirt/fake"
)

// kubeVirtWith returns a KubeVirt that permits a device, and has a version.
func kubeVirtWith(version, permitted string, gates ...string) *kubevirtv1.KubeVirt {
	kubeVirt := &kubevirtv1.KubeVirt{Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: version}}
	kubeVirt.Spec.Configuration.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{FeatureGates: gates}
	kubeVirt.Spec.Configuration.PermittedHostDevices = &kubevirtv1.PermittedHostDevices{
		PciHostDevices: []kubevirtv1.PciHostDevice{{ResourceName: permitted}},
	}

	return kubeVirt
}

// nodeWith returns a node that advertises a device.
func nodeWith(zone, device string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: zone, Labels: map[string]string{corev1.LabelTopologyRegion: "r", corev1.LabelTopologyZone: zone}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceName(device): resource.MustParse("2")}},
	}
}

// templateOf returns a ResourceClaimTemplate for devices of classes.
func templateOf(classes ...string) *resourcev1.ResourceClaimTemplate {
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a100"}}
	for _, class := range classes {
		template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, resourcev1.DeviceRequest{
			Name:    "one",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
		})
	}

	return template
}

func TestCheckDevices(t *testing.T) {
	t.Parallel()

	const (
		plugin = `{"domain":{"devices":{"gpus":[{"name":"a","deviceName":"example.com/gpu"}],"hostDevices":[{"name":"b","deviceName":"example.com/gpu"}]}}}`
		claim  = `{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"a100"}],"domain":{"devices":{"gpus":[{"name":"a","claimName":"gpu","requestName":"one"}]}}}`
	)

	for name, tc := range map[string]struct {
		reason, spec string
		kubeVirt     *kubevirtv1.KubeVirt
		objects      []runtime.Object
		classes      []string
		// old is set if the API server does not serve resource.k8s.io/v1.
		old    bool
		want   []Level
		remedy string
	}{
		"None": {reason: "most machines have no devices", spec: `{}`, kubeVirt: kubeVirtWith("v1.9.0", "")},
		"Plugin": {
			reason: "it is permitted and advertised", spec: plugin, kubeVirt: kubeVirtWith("v1.9.0", "example.com/gpu"),
			objects: []runtime.Object{nodeWith("z", "example.com/gpu")}, want: []Level{OK, OK},
		},
		"NotPermitted": {
			reason: "KubeVirt would never schedule the machine", spec: plugin, kubeVirt: kubeVirtWith("v1.9.0", "example.com/other"),
			objects: []runtime.Object{nodeWith("z", "example.com/gpu")}, want: []Level{Error, OK}, remedy: "permittedHostDevices",
		},
		"OtherZone": {
			reason: "machines need it in their zone", spec: plugin, kubeVirt: kubeVirtWith("v1.9.0", "example.com/gpu"),
			objects: []runtime.Object{nodeWith("other", "example.com/gpu")}, want: []Level{OK, Error}, remedy: "device plugin",
		},
		"Claim": {
			reason: "the template and the class exist", spec: claim, kubeVirt: kubeVirtWith("v1.9.0", ""),
			objects: []runtime.Object{templateOf("gpu.example.com", "gpu.example.com")}, classes: []string{"gpu.example.com"}, want: []Level{OK, OK, OK},
		},
		"GateOff": {
			reason: "it is alpha before 1.9", spec: claim, kubeVirt: kubeVirtWith("v1.8.4", ""),
			objects: []runtime.Object{templateOf()}, want: []Level{Error, OK}, remedy: "featureGates",
		},
		"GateOn": {
			reason: "it was enabled", spec: claim, kubeVirt: kubeVirtWith("v1.8.4", "", "GPUsWithDRA"),
			objects: []runtime.Object{templateOf()}, want: []Level{OK, OK},
		},
		"NoTemplate":    {reason: "the pod would wait for it", spec: claim, kubeVirt: kubeVirtWith("v1.9.0", ""), want: []Level{OK, Error}, remedy: "create it"},
		"NoDeviceClass": {reason: "no device would match", spec: claim, kubeVirt: kubeVirtWith("v1.9.0", ""), objects: []runtime.Object{templateOf("gpu.example.com")}, want: []Level{OK, OK, Error}, remedy: "deviceclasses"},
		"Kubernetes133": {reason: "the API is another one", spec: claim, kubeVirt: kubeVirtWith("v1.9.0", ""), old: true, want: []Level{OK, Warning}, remedy: "1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := readerOn(t, tc.objects...)
			r.clients.KubeVirt = kubevirtfake.NewSimpleClientset(tc.kubeVirt)
			r.clients.Metadata = deviceClassesNamed(t, tc.classes)

			if tc.old {
				withoutClaims(t, r)
			}

			c := classOf(t, `{"spec":{"template":{"spec":`+tc.spec+`}}}`)
			c.Machine.Spec.Region = "r"
			c.Machine.Spec.Zone = "z"

			var got []Level

			remedies := ""

			for _, result := range checkDevices(t.Context(), r, c) {
				got = append(got, result.Level)
				remedies += result.Remedy
			}

			require.Equal(t, tc.want, got, tc.reason)
			require.Contains(t, remedies, tc.remedy)
		})
	}
}

// deviceClassesNamed returns a client for the metadata of DeviceClasses.
func deviceClassesNamed(t *testing.T, names []string) *metadatafake.FakeMetadataClient {
	t.Helper()

	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))

	client := metadatafake.NewSimpleMetadataClient(scheme)
	for _, name := range names {
		require.NoError(t, client.Tracker().Create(kindDeviceClass.resource, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: kindDeviceClass.resource.GroupVersion().String(), Kind: kindDeviceClass.name},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}, ""))
	}

	return client
}

// withoutClaims lets the API server answer as one that does not know the kind.
func withoutClaims(t *testing.T, r *reader) {
	t.Helper()

	clientset, ok := r.clients.Kubernetes.(*fake.Clientset)
	require.True(t, ok)

	unknown := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)

	clientset.PrependReactor("get", "resourceclaimtemplates", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unknown })
}
