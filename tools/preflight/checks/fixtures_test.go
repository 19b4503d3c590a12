// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdifake "kubevirt.io/client-go/containerizeddataimporter/fake"
	kubevirtfake "kubevirt.io/client-go/kubevirt/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classOf returns a class with this VirtualMachine.
func classOf(t *testing.T, vm string) *class {
	t.Helper()

	tags := map[string]string{v1alpha1.TagCluster: "shoot", v1alpha1.TagRole: "node"}

	return &class{
		Class:     Class{Name: "c", Machine: &spi.CreateMachineInput{Spec: &v1alpha1.ProviderSpec{Tags: tags}}},
		namespace: "machines",
		vm:        machine(t, vm),
	}
}

// machine returns a VirtualMachine.
func machine(t *testing.T, text string) *kubevirtv1.VirtualMachine {
	t.Helper()

	vm := &kubevirtv1.VirtualMachine{}
	require.NoError(t, json.Unmarshal([]byte(text), vm))

	return vm
}

// readerOn returns the reader of an admin on a cluster with these objects of Kubernetes.
func readerOn(t *testing.T, objects ...runtime.Object) *reader {
	t.Helper()

	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))

	return &reader{
		Identity: Identity{Name: Admin},
		clients: &providerapi.Clients{
			Kubernetes: fake.NewClientset(objects...),
			KubeVirt:   kubevirtfake.NewSimpleClientset(),
			CDI:        cdifake.NewSimpleClientset(),
			Metadata:   metadatafake.NewSimpleMetadataClient(scheme),
			Namespace:  "machines",
		},
	}
}
