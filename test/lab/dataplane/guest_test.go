package dataplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestFindTokens(t *testing.T) {
	t.Parallel()
	pattern := newGuests(nil, nil, behaviour{}, "", time.Now, nil).tokens
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

func TestUserDataSecret(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	require.Empty(t, userDataSecret(instance))
	reference := &corev1.LocalObjectReference{Name: "user-data"}
	for _, source := range []kubevirtv1.VolumeSource{
		{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserDataSecretRef: reference}},
		{CloudInitConfigDrive: &kubevirtv1.CloudInitConfigDriveSource{UserDataSecretRef: reference}},
	} {
		with := testInstance()
		with.Spec.Volumes = append(with.Spec.Volumes, kubevirtv1.Volume{Name: "cloud-init", VolumeSource: source})
		require.Equal(t, "user-data", userDataSecret(with))
	}
}

func TestGuestStatus(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	memory := resource.MustParse("4Gi")
	instance.Spec.Domain.CPU = &kubevirtv1.CPU{Cores: 2, Sockets: 2}
	instance.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: &memory}
	instance.Status.Interfaces = interfaceStatuses(instance, "10.244.0.9", true)

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

func TestHash(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hash([]byte("abc")))
}
