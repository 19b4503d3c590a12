// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"encoding/json"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestWarner warns of machines that cannot be live-migrated, when their pool is new or changes its machines.
func TestWarner(t *testing.T) {
	t.Parallel()

	shoot := func(types ...string) *gardencorev1beta1.Shoot {
		s := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "a"}}
		s.Spec.CloudProfile = &gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "kubevirt"}

		for i, name := range types {
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, gardencorev1beta1.Worker{Name: string(rune('a' + i)), Machine: gardencorev1beta1.Machine{Type: name}})
		}

		return s
	}

	const gpu = "spec.provider.workers[0]: the machines of pool a cannot be live-migrated, since their machine type gpu has gpus of the provider node: a drain of the provider node stops them"

	larger := shoot("gpu")
	larger.Spec.Provider.Workers[0].Minimum = 5

	for name, tc := range map[string]struct {
		reason     string
		shoot, old *gardencorev1beta1.Shoot
		kind       string
		refused    bool
		want       []string
	}{
		"GPU":      {reason: "it is new", shoot: shoot("gpu", "small"), want: []string{gpu}},
		"Small":    {reason: "nothing prevents it", shoot: shoot("small")},
		"Changed":  {reason: "it had another machine type", shoot: shoot("gpu"), old: shoot("small"), want: []string{gpu}},
		"Repeated": {reason: "the user knows", shoot: larger, old: shoot("gpu")},
		"Refused":  {reason: "the errors matter", shoot: shoot("gpu"), refused: true},
		"Other":    {reason: "it is no Shoot", shoot: shoot("gpu"), kind: "CloudProfile"},
		"Both": {
			reason: "all devices are named", shoot: shoot("all"),
			want: []string{"spec.provider.workers[0]: the machines of pool a cannot be live-migrated, since their machine type all has gpus and hostDevices of the provider node: a drain of the provider node stops them"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Kind: "Shoot"}}}
			request.Object.Raw = encoded(t, tc.shoot)

			if tc.kind != "" {
				request.Kind.Kind = tc.kind
			}

			if tc.old != nil {
				request.Operation = admissionv1.Update
				request.OldObject.Raw = encoded(t, tc.old)
			}

			w := &warner{Handler: responding(!tc.refused), shoots: &shootValidator{garden: gardenWithGPUs(t)}}
			require.Equal(t, tc.want, w.Handle(t.Context(), request).Warnings, tc.reason)
		})
	}
}

// responding is a webhook that accepts or refuses everything.
type responding bool

// Handle implements admission.Handler.
func (r responding) Handle(context.Context, admission.Request) admission.Response {
	return admission.ValidationResponse(bool(r), "")
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()

	raw, err := json.Marshal(object)
	require.NoError(t, err)

	return raw
}

// gardenWithGPUs returns a garden whose CloudProfile has machine types with devices.
func gardenWithGPUs(t *testing.T) client.Reader {
	t.Helper()

	scheme := runtime.NewScheme()
	require.NoError(t, gardencorev1beta1.AddToScheme(scheme))

	profile := &gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt"}}
	profile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig",
		"machineTypes": [{"name": "gpu", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}]},
			{"name": "all", "gpus": [{"name": "a", "deviceName": "example.com/gpu"}], "hostDevices": [{"name": "b", "deviceName": "example.com/nic"}]}]}`)}

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(profile).Build()
}
