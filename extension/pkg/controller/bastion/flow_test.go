// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

func TestFlow_AddressOf(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason  string
		ingress corev1.LoadBalancerIngress
		valid   bool
	}{
		"IPv4":     {"the usual address", corev1.LoadBalancerIngress{IP: "203.0.113.5"}, true},
		"IPv6":     {"the usual address", corev1.LoadBalancerIngress{IP: "2001:db8::5"}, true},
		"Hostname": {"load balancers of clouds", corev1.LoadBalancerIngress{Hostname: "lb-5.example.com"}, true},
		"Option":   {"ssh would run a command", corev1.LoadBalancerIngress{Hostname: "-oProxyCommand=touch"}, false},
		"Zone":     {"it is any text", corev1.LoadBalancerIngress{IP: "2001:db8::5%\x1b[2J"}, false},
		"Loopback": {"the user's own machine", corev1.LoadBalancerIngress{IP: "127.0.0.1"}, false},
		"Text":     {"it is no address", corev1.LoadBalancerIngress{IP: "-oProxyCommand=touch"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := newLandscape(t)
			require.Error(t, l.reconcile(t))
			l.start(t, tc.ingress)

			err := l.reconcile(t)
			require.Equal(t, tc.valid, err == nil, "%s: %v", tc.reason, err)
			require.Equal(t, tc.valid, l.bastion.Status.Ingress != nil, tc.reason)
		})
	}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()

	failure := kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Message: "exceeded quota\x1b"}
	unschedulable := kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineReady, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}
	started := kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionFalse, Message: "started"}
	long := kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Message: strings.Repeat("a", 400)}

	for name, tc := range map[string]struct {
		conditions []kubevirtv1.VirtualMachineCondition
		want       string
	}{
		"No conditions":         {nil, ""},
		"Failure is the reason": {[]kubevirtv1.VirtualMachineCondition{unschedulable, failure}, `: "exceeded quota\x1b"`},
		"Not ready":             {[]kubevirtv1.VirtualMachineCondition{started, unschedulable}, `: "0/3 nodes are available"`},
		"Long":                  {[]kubevirtv1.VirtualMachineCondition{long}, `: "` + strings.Repeat("a", 300) + `"`},
	} {
		machine := &kubevirtv1.VirtualMachine{Status: kubevirtv1.VirtualMachineStatus{Conditions: tc.conditions}}
		require.Equal(t, tc.want, reasonOf(machine), name)
	}
}

func TestFlow_Network(t *testing.T) {
	t.Parallel()

	plugin := &kubevirtv1.PluginBinding{Name: "l2bridge"}

	for name, tc := range map[string]struct {
		reason  string
		infra   api.InfrastructureStatus
		binding kubevirtv1.Interface
		network string
	}{
		"Default": {reason: "the pod network", binding: kubevirtv1.Interface{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Masquerade: &kubevirtv1.InterfaceMasquerade{}}}},
		"Plugin": {
			reason: "the pod network needs it", infra: api.InfrastructureStatus{PodNetwork: &api.PodNetwork{Binding: "l2bridge"}}, binding: kubevirtv1.Interface{Binding: plugin},
		},
		"Secondary network": {
			reason: "load balancers use the pod network", infra: api.InfrastructureStatus{Networks: []api.NetworkStatus{{Name: "storage"}}},
			binding: kubevirtv1.Interface{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Masquerade: &kubevirtv1.InterfaceMasquerade{}}},
		},
		"Default network": {
			reason: "the machines are not on the pod network", infra: api.InfrastructureStatus{Networks: []api.NetworkStatus{{Name: "a/net", Default: true}}},
			binding: kubevirtv1.Interface{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}}}, network: "a/net",
		},
		"Default network with plugin": {
			reason:  "the network needs it",
			infra:   api.InfrastructureStatus{Networks: []api.NetworkStatus{{Name: "net", Default: true, Attachment: api.Attachment{Binding: plugin}}}},
			binding: kubevirtv1.Interface{Binding: plugin}, network: "net",
		},
	} {
		nic, network := (&flow{}).network(&tc.infra)
		tc.binding.Name = primaryInterface
		require.Equal(t, tc.binding, nic, "%s: %s", name, tc.reason)

		if tc.network == "" {
			require.NotNil(t, network.Pod, name)
			require.EqualValues(t, 22, readinessProbe(network).TCPSocket.Port.IntVal, name)
		} else {
			require.Nil(t, readinessProbe(network), name)
			require.Equal(t, &kubevirtv1.MultusNetwork{NetworkName: tc.network, Default: true}, network.Multus, name)
		}
	}
}

func TestImageOf(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		image  kubevirtv1.ContainerDiskSource
		want   corev1.PullPolicy
	}{
		"Tag":        {"nodes have older content", kubevirtv1.ContainerDiskSource{Image: "debian:13"}, corev1.PullAlways},
		"Digest":     {"it has one content", kubevirtv1.ContainerDiskSource{Image: "debian@sha256:0"}, ""},
		"Configured": {"the operator knows", kubevirtv1.ContainerDiskSource{Image: "debian:13", ImagePullPolicy: corev1.PullNever}, corev1.PullNever},
	} {
		image, err := imageOf(&api.CloudProfileConfig{Bastion: &api.OfferedBastion{ContainerDisk: tc.image}})
		require.NoError(t, err)
		require.Equal(t, tc.want, image.ImagePullPolicy, "%s: %s", name, tc.reason)
	}
}
