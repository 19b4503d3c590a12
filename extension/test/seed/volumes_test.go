// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestProgramOfVolumes(t *testing.T) {
	t.Parallel()

	s := &Seed{state: &labState{CSIDriver: "/lab/csi-driver", Sidecars: map[string]string{"csi-attacher:v4.13.0": "/lab/csi-attacher"}}}

	for name, tc := range map[string]struct {
		reason, image, want, failure string
	}{
		"kubevirt-csi-driver":         {reason: "the lab's driver takes its place, whatever its image is", image: "a/b:latest", want: "/lab/csi-driver"},
		"kubevirt-csi-liveness-probe": {reason: "it is not served", image: "a/livenessprobe:v2"},
		"kubevirt-csi-attacher":       {reason: "the lab has this version", image: "registry.example/csi-attacher:v4.13.0", want: "/lab/csi-attacher"},
		"kubevirt-csi-resizer": {
			reason:  "a version without a program fails",
			image:   "registry.example/csi-resizer:v9",
			failure: "the lab has no program for the image csi-resizer:v9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := s.programOfVolumes(corev1.Container{Name: name, Image: tc.image})
			require.Equal(t, tc.want, got, tc.reason)

			if tc.failure != "" {
				require.ErrorContains(t, err, tc.failure)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestInSandbox(t *testing.T) {
	t.Parallel()

	k := &kubelet{folder: "/pods/a"}
	container := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "socket", MountPath: "/csi"}, {Name: "provider", MountPath: "/var/run/secrets/provider"}}}

	for arg, want := range map[string]string{
		"--endpoint=unix:///csi/csi.sock":          "--endpoint=unix:///pods/a/socket/csi.sock",
		"--credentials=/var/run/secrets/provider":  "--credentials=/pods/a/provider",
		"--labels=example.com/csi-driver=x":        "--labels=example.com/csi-driver=x",
		"--kubeconfig=inClusterConfig":             "--kubeconfig=/in-cluster",
		"--config=/var/run/secrets/provider2/file": "--config=/var/run/secrets/provider2/file",
	} {
		require.Equal(t, want, k.inSandbox(arg, container, "/in-cluster"))
	}
}

func TestExampleOf(t *testing.T) {
	t.Parallel()

	lease := exampleOf(rbacv1.PolicyRule{
		APIGroups:     []string{"coordination.k8s.io"},
		Resources:     []string{"leases"},
		ResourceNames: []string{"a"},
		Verbs:         []string{"get", "update"},
	})
	require.Equal(t, []string{"get", "coordination.k8s.io", "leases", "a"}, []string{lease.Verb, lease.Group, lease.Resource, lease.Name})

	status := exampleOf(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims/status"}, Verbs: []string{"patch"}})
	require.Equal(t, []string{"persistentvolumeclaims", "status"}, []string{status.Resource, status.Subresource})
}
