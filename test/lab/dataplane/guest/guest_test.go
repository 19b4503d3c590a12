// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

func TestFindTokens(t *testing.T) {
	t.Parallel()
	pattern := New(nil, nil, behaviour.Reader{}, "", time.Now, nil).tokens
	for name, tc := range map[string]struct {
		data string
		want []bootstrapToken
	}{
		"None":        {data: "#cloud-config\nhostname: vm\n"},
		"CloudConfig": {data: "token: abcdef.0123456789abcdef\n", want: []bootstrapToken{{"abcdef", "0123456789abcdef"}}},
		"Quoted":      {data: `--token="abcdef.0123456789abcdef"`, want: []bootstrapToken{{"abcdef", "0123456789abcdef"}}},
		"TooLong":     {data: "abcdef.0123456789abcdef0"},
		"UpperCase":   {data: "ABCDEF.0123456789abcdef"},
		"Two": {
			data: "aaaaaa.0000000000000000 bbbbbb.1111111111111111",
			want: []bootstrapToken{{"aaaaaa", "0000000000000000"}, {"bbbbbb", "1111111111111111"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, findTokens(pattern, []byte(tc.data)))
		})
	}
}

func TestSharedToken(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapTokenPrefix + "6e3967"},
		Data:       map[string][]byte{bootstrapTokenKey: []byte("0123456789abcdef")},
	}
	client := fake.NewClientset(secret)
	g := New(nil, &cluster.Target{Client: client}, behaviour.Reader{}, "", time.Now, nil)

	const shared, other = "token: 6e3967.0123456789abcdef", "token: 6e3967.fedcba9876543210"
	require.False(t, mayJoin(t, g, "ns/labels-n9gbn", other))
	require.True(t, mayJoin(t, g, "ns/autoscaler-n9g85", shared))
	require.NoError(t, client.CoreV1().Secrets(secret.Namespace).Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))

	require.True(t, mayJoin(t, g, "ns/labels-n9gbn", shared), "the other machine's token was deleted")
	require.False(t, mayJoin(t, g, "ns/autoscaler-n9g85", shared), "a new disk needs a new token")
	require.False(t, mayJoin(t, g, "ns/labels-n9gbn", other))
}

func mayJoin(t *testing.T, g *Guests, instance, data string) bool {
	t.Helper()
	allowed, err := g.mayJoin(t.Context(), instance, []byte(data))
	require.NoError(t, err)
	return allowed
}

func TestUserDataSecret(t *testing.T) {
	t.Parallel()
	instance := testGuest()
	require.Empty(t, userDataSecret(instance))
	reference := &corev1.LocalObjectReference{Name: "user-data"}
	for _, source := range []kubevirtv1.VolumeSource{
		{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserDataSecretRef: reference}},
		{CloudInitConfigDrive: &kubevirtv1.CloudInitConfigDriveSource{UserDataSecretRef: reference}},
	} {
		with := testGuest()
		with.Spec.Volumes = append(with.Spec.Volumes, kubevirtv1.Volume{Name: "cloud-init", VolumeSource: source})
		require.Equal(t, "user-data", userDataSecret(with))
	}
}

func TestGuestStatus(t *testing.T) {
	t.Parallel()
	instance := testGuest()
	memory := resource.MustParse("4Gi")
	instance.Spec.Domain.CPU = &kubevirtv1.CPU{Cores: 2, Sockets: 2}
	instance.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: &memory}
	instance.Status.Interfaces = []kubevirtv1.VirtualMachineInstanceNetworkInterface{{Name: "default", IP: "10.244.0.9"}}

	node := &corev1.Node{}
	node.Name = hostname(instance)
	setGuestStatus(node, instance, "v1.32.1")
	require.Equal(t, "vm", node.Name)
	require.Equal(t, "v1.32.1", node.Status.NodeInfo.KubeletVersion)
	require.Equal(t, int64(4), node.Status.Capacity.Cpu().Value())
	require.Equal(t, memory, node.Status.Capacity[corev1.ResourceMemory])
	require.Equal(t, []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "vm"}, {Type: corev1.NodeInternalIP, Address: "10.244.0.9"},
	}, node.Status.Addresses)
	require.Empty(t, instanceTypeLabel(instance))

	instance.Annotations = map[string]string{kubevirtv1.InstancetypeAnnotation: "u1.medium"}
	require.Equal(t, map[string]string{corev1.LabelInstanceTypeStable: "u1.medium"}, instanceTypeLabel(instance))
}

func testGuest() *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vm", UID: "uid"}}
}
