// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// The names of the Shoot's own network, and of one of the namespace default that the CloudProfile offers to all Shoots. The addresses of both
// begin alike.
const (
	tenantNetwork = "lan"
	sharedNetwork = "shared"
	addressPrefix = "10.98."
)

// networkOn returns the CNI configuration of a network on one of the bridges of all nodes. They share the folder of volumes, so that the addresses
// are unique among them.
func networkOn(bridge int, name string) string {
	return fmt.Sprintf(`{"cniVersion":"0.4.0","name":%q,"type":"bridge","bridge":%q,"mtu":%d,"ipam":{"type":"host-local","subnet":"%s%d.0/24","dataDir":%q}}`,
		name, node.Bridges()[bridge], node.BridgeMTU, addressPrefix, bridge, node.VolumesOnNodes+"/addresses")
}

// createSharedNetwork creates the network that the CloudProfile offers, as an operator does.
func createSharedNetwork(t *testing.T) {
	t.Helper()

	require.NoError(t, theSeed.Provider.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1",
		"kind":       "NetworkAttachmentDefinition",
		"metadata":   map[string]any{"namespace": metav1.NamespaceDefault, "name": sharedNetwork},
		"spec":       map[string]any{"config": networkOn(1, sharedNetwork)},
	}}))
}

// requireNetworks requires that the worker answers a pod on another provider node in the tenant network and in the shared one, at the addresses that
// its instance had before the drain: the guest keeps them, while its instance then shows those of the new launcher.
func requireNetworks(t *testing.T, before *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	instance := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKeyFromObject(before), instance))

	var addresses []string

	for _, status := range before.Status.Interfaces {
		if strings.HasPrefix(status.IP, addressPrefix) {
			addresses = append(addresses, status.IP)
		}
	}

	require.Len(t, addresses, 2, "%v", before.Status.Interfaces)

	pod := newNeighbor(instance, fmt.Sprintf("until ping -c 1 -W 5 %s && ping -c 1 -W 5 %s; do sleep 1; done", addresses[0], addresses[1]))
	require.NoError(t, theSeed.Provider.Create(t.Context(), pod))
	eventually(t, 5*time.Minute, func(ctx context.Context) (bool, string) {
		err := theSeed.Provider.Get(ctx, client.ObjectKeyFromObject(pod), pod)

		return err == nil && pod.Status.Phase == corev1.PodSucceeded, fmt.Sprint(err, pod.Status)
	})
	t.Logf("%s on %s has reached %v on %s", pod.Name, pod.Spec.NodeName, addresses, instance.Status.NodeName)
	require.NoError(t, theSeed.Provider.Delete(t.Context(), pod))
}

// newNeighbor returns a pod with the networks of Multus of an instance, on another node.
func newNeighbor(instance *kubevirtv1.VirtualMachineInstance, script string) *corev1.Pod {
	var networks []string

	for _, network := range instance.Spec.Networks {
		if network.Multus != nil {
			networks = append(networks, network.Multus.NetworkName)
		}
	}

	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   instance.Namespace,
			Name:        "neighbor",
			Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": strings.Join(networks, ",")},
		},
		Spec: corev1.PodSpec{
			NodeName:      slices.DeleteFunc(node.Names(2), func(name string) bool { return name == instance.Status.NodeName })[0],
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name:            "ping",
				Image:           images.Busybox,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{"sh", "-c", script},
			}},
		},
	}
}
