// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const validSpec = `{"region":"r","zone":"z","memory":{"guest":"1Gi"},
  "tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
  "rootVolume":{"source":{"pvc":{"name":"image"}},"storage":{}}}`

// request holds the objects of a request about a machine.
type request struct {
	machine *v1alpha1.Machine
	class   *v1alpha1.MachineClass
	secret  *corev1.Secret
}

func validRequest() *request {
	return &request{
		machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", Labels: map[string]string{"name": "md"}}},
		class: &v1alpha1.MachineClass{
			ObjectMeta:   metav1.ObjectMeta{Namespace: "shoot", Name: "class"},
			Provider:     "kubevirt",
			ProviderSpec: runtime.RawExtension{Raw: []byte(validSpec)},
			NodeTemplate: &v1alpha1.NodeTemplate{Architecture: ptr.To("arm64")},
		},
		secret: &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("k"), "userData": []byte("d")}},
	}
}

func (r *request) decode() (*spi.CreateMachineInput, error) {
	return machineclass.DecodeCreateMachine(r.machine, r.class, r.secret, validation.Options{Template: validation.TemplateSafe})
}

func TestDecodeCreateMachine(t *testing.T) {
	t.Parallel()

	r := validRequest()
	r.machine.Spec.NodeTemplateSpec.Labels = map[string]string{"worker.gardener.cloud/pool": "pool"}

	in, err := r.decode()
	require.NoError(t, err)
	require.Equal(t, "image", in.Spec.RootVolume.Source.PVC.Name)

	in.Spec = nil
	require.Equal(t, &spi.CreateMachineInput{
		Kubeconfig:   []byte("k"),
		Name:         "m",
		UID:          "u",
		Deployment:   "md",
		WorkerPool:   "pool",
		Architecture: "arm64",
		UserData:     []byte("d"),
		Class:        spi.Class{Name: types.NamespacedName{Namespace: "shoot", Name: "class"}},
	}, in)
}

func TestDecodeCreateMachineRefuses(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("x", 64)

	tests := map[string]struct {
		change func(*request)
		want   string
	}{
		"no Machine":        {func(r *request) { r.machine = nil }, "no Machine"},
		"no DNS label":      {func(r *request) { r.machine.Name = "a.b" }, `"a.b"`},
		"no UID":            {func(r *request) { r.machine.UID = "" }, "no UID"},
		"no class":          {func(r *request) { r.class = nil }, "no MachineClass"},
		"another provider":  {func(r *request) { r.class.Provider = "aws" }, `"aws"`},
		"no Secret":         {func(r *request) { r.secret = nil }, "refers to no Secret with the key kubeconfig"},
		"no user data":      {func(r *request) { delete(r.secret.Data, "userData") }, "the key userData"},
		"MachineDeployment": {func(r *request) { r.machine.Labels["name"] = long }, "label name of Machine m"},
		"architecture":      {func(r *request) { r.class.NodeTemplate.Architecture = ptr.To("vax") }, `"vax"`},
		"providerSpec":      {func(r *request) { r.class.ProviderSpec.Raw = []byte(`{"a":1,"b":2}`) }, "providerSpec.b: Forbidden"},
		"worker pool": {func(r *request) {
			r.machine.Spec.NodeTemplateSpec.Labels = map[string]string{"worker.gardener.cloud/pool": long}
		}, "worker.gardener.cloud/pool in the nodeTemplate of Machine m"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := validRequest()
			tc.change(r)

			_, err := r.decode()
			require.ErrorIs(t, err, spi.ErrInvalid)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAccessToMachine(t *testing.T) {
	t.Parallel()

	r := validRequest()
	r.machine.Name = "a.b"
	r.machine.UID = ""
	delete(r.secret.Data, "userData")

	kubeconfig, id, err := machineclass.AccessToMachine(r.machine, r.class, r.secret)
	require.NoError(t, err, "a machine of the predecessor, without its Machine")
	require.Equal(t, "k", string(kubeconfig))
	require.Equal(t, spi.Identity{Cluster: "c", Role: "node"}, id)

	r.machine.Name = "a_b"
	_, _, err = machineclass.AccessToMachine(r.machine, r.class, r.secret)
	require.ErrorIs(t, err, spi.ErrNotFound)

	_, _, err = machineclass.AccessToMachine(nil, r.class, r.secret)
	require.ErrorIs(t, err, spi.ErrInvalid)
}

func TestRecordedAddress(t *testing.T) {
	t.Parallel()

	annotated := spi.Address{Server: "https://a.example.com", Namespace: "machines", Cluster: "c", Role: "node", UID: "vm-1"}
	known := annotated
	known.UID = "vm-2"

	machine := &v1alpha1.Machine{}
	require.Nil(t, machineclass.RecordedAddress(machine))

	machine.Status.LastKnownState = "another driver's"
	require.Nil(t, machineclass.RecordedAddress(machine))

	machine.Status.LastKnownState = known.Encode()
	require.Equal(t, &spi.RecordedAddress{Address: known}, machineclass.RecordedAddress(machine))

	machine.Annotations = map[string]string{spi.AnnotationAddress: annotated.Encode()}
	require.Equal(t, &spi.RecordedAddress{Address: annotated}, machineclass.RecordedAddress(machine), "the annotation takes precedence")
}
