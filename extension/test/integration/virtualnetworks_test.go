// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// userDefinedNetworks is the kind of OVN-Kubernetes, which does not run here, with the parts of its schema that the
// extension sets.
const userDefinedNetworks = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: userdefinednetworks.k8s.ovn.org}
spec:
  group: k8s.ovn.org
  scope: Namespaced
  names: {kind: UserDefinedNetwork, plural: userdefinednetworks, singular: userdefinednetwork, listKind: UserDefinedNetworkList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [topology]
              properties:
                topology: {type: string, enum: [Layer2, Layer3]}
                layer2:
                  type: object
                  required: [role]
                  properties:
                    role: {type: string, enum: [Primary, Secondary]}
                    subnets: {type: array, items: {type: string}}
                    ipam: {type: object, properties: {lifecycle: {type: string, enum: [Persistent]}}}
`

// TestVirtualNetworks creates a network of OVN-Kubernetes with the permissions of the shipped Role, and deletes it with the
// Shoot.
func TestVirtualNetworks(t *testing.T) {
	t.Parallel()

	definition := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(userDefinedNetworks), definition))
	require.NoError(t, theSeed.Provider.Create(t.Context(), definition))

	shoot := newShoot(t, named("networks"))
	pool(shoot, 0).Minimum = 0
	shoot.Object.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1",
		"kind": "InfrastructureConfig", "networks": {"tenantNetworks": [{"name": "storage", "ovn": {"cidr": "10.110.0.0/16"}}]}}`)}

	eventually(t, func(ctx context.Context) (bool, string) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(providercluster.UserDefinedNetwork)
		err := theSeed.Provider.List(ctx, list)

		return err == nil, "the API server serves the kind"
	})
	require.NoError(t, shoot.Reconcile(t.Context()))

	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(providercluster.UserDefinedNetwork)
	key := client.ObjectKey{Namespace: shoot.ProviderNamespace, Name: shoot.Namespace + "-storage"}
	require.NoError(t, theSeed.Provider.Get(t.Context(), key, network))

	requireNothingLeft(t, shoot)
	require.True(t, apierrors.IsNotFound(theSeed.Provider.Get(t.Context(), key, network)))
}
