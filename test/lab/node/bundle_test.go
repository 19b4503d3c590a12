// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNodes_WriteBundle requires what keeps a node apart from the machine: namespaces of all kinds, a cgroup of the lab, and an interface of its own.
func TestNodes_WriteBundle(t *testing.T) {
	t.Parallel()
	one := &node{name: "provider-a-1", index: 1, dir: t.TempDir(), log: "/log"}
	n := &Nodes{options: Options{Dir: "/data", Cgroup: "lab-1-", Images: "/images", Kubelet: "/kubelet", Proxy: "/proxy", Multus: "/multus"}}
	require.NoError(t, n.writeBundle(one))
	data, err := os.ReadFile(filepath.Join(one.dir, "config.json"))
	require.NoError(t, err)
	var bundle struct {
		Process struct{ Env []string }
		Mounts  []struct{ Destination, Type, Source string }
		Linux   struct {
			Namespaces  []struct{ Type, Path string }
			CgroupsPath string
			NetDevices  map[string]struct{ Name string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &bundle))
	kinds := map[string]string{}
	for _, namespace := range bundle.Linux.Namespaces {
		kinds[namespace.Type] = namespace.Path
	}
	require.Equal(t, map[string]string{"pid": "", "network": "", "ipc": "", "uts": "", "mount": "", "cgroup": ""}, kinds, "new ones")
	require.Equal(t, "lab-1-provider-a-1", bundle.Linux.CgroupsPath, "relative to the lab's")
	require.Equal(t, "eth0", bundle.Linux.NetDevices["node1"].Name)
	require.Subset(t, bundle.Process.Env, []string{"NAME=provider-a-1", "ADDRESS=10.99.0.12"})
	for _, mount := range bundle.Mounts {
		if mount.Type == "bind" {
			require.NotContains(t, []string{"/", "/dev", "/proc", "/sys", "/run"}, mount.Source, "none is the machine's")
		}
	}
}

func TestHasKVM(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		files  []string
		want   bool
	}{
		"Intel":     {reason: "the module virtualizes in hardware", files: []string{"dev/kvm", "sys/module/kvm_intel"}, want: true},
		"AMD":       {reason: "the module virtualizes in hardware", files: []string{"dev/kvm", "sys/module/kvm_amd"}, want: true},
		"emulated":  {reason: "another module emulates the processor", files: []string{"dev/kvm", "sys/module/kvm", "sys/module/kvm_pvm"}},
		"no device": {reason: "a container may not have it", files: []string{"sys/module/kvm_intel"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, file := range test.files {
				require.NoError(t, os.MkdirAll(filepath.Join(root, file), 0o750))
			}
			require.Equal(t, test.want, hasKVM(root), test.reason)
		})
	}
}

// TestDevices_KVM requires that guests get KVM where the machine has it, and nowhere else.
func TestDevices_KVM(t *testing.T) {
	t.Parallel()
	for _, kvm := range []bool{true, false} {
		var paths []any
		for _, device := range devices(kvm) {
			paths = append(paths, device["path"])
		}
		require.Equal(t, kvm, slices.Contains(paths, any("/dev/kvm")))
		require.Contains(t, paths, "/dev/net/tun")
	}
}
