// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// object is JSON.
type object = map[string]any

// writeBundle writes the configuration of a node's container, config.json of the runtime specification of OCI.
func (n *Nodes) writeBundle(one *node) error {
	capabilities, err := ownCapabilities()
	if err != nil {
		return err
	}
	labels := fmt.Sprintf("topology.kubernetes.io/region=%s,topology.kubernetes.io/zone=%s", Region, Zone)
	data, err := json.MarshalIndent(object{
		"ociVersion": "1.3.0",
		"hostname":   one.name,
		"root":       object{"path": "root"},
		"process": object{
			"args": []string{"/bin/bash", "/opt/lab/init.sh"},
			"cwd":  "/",
			"env": []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"NAME=" + one.name, "ADDRESS=" + one.address(), "LABELS=" + labels,
				"BRIDGES=" + strings.Join(Bridges(), " "),
			},
			"user":         object{"uid": 0, "gid": 0},
			"capabilities": object{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
		},
		"mounts": n.mounts(one),
		"linux": object{
			"namespaces":        namespaces("pid", "network", "ipc", "uts", "mount", "cgroup"),
			"netDevices":        object{one.device(): object{"name": "eth0"}},
			"rootfsPropagation": "rshared", // for volumes with mountPropagation: Bidirectional
			// Relative: below the own group of version 1, and beside it of version 2 (moveIntoGroup), so below the group of this program.
			"cgroupsPath": n.options.Cgroup + one.name,
			"resources":   object{"devices": []object{{"allow": true, "access": "rwm"}}},
			"devices":     devices(HasKVM()),
		},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the container's configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(one.dir, "config.json"), data, 0o600); err != nil {
		return fmt.Errorf("write the container's configuration: %w", err)
	}
	return nil
}

func namespaces(types ...string) []object {
	var all []object
	for _, t := range types {
		all = append(all, object{"type": t})
	}
	return all
}

// mounts returns the node's file systems. The folders of containerd and kubelet are no part of the root folder, which is an
// overlay: containerd cannot put its own on top.
func (n *Nodes) mounts(one *node) []object {
	mount := func(target, kind, source string, options ...string) object {
		return object{"destination": target, "type": kind, "source": source, "options": options}
	}
	all := []object{
		mount("/proc", "proc", "proc"),
		mount("/dev", "tmpfs", "tmpfs", "mode=755"),
		mount("/dev/pts", "devpts", "devpts", "newinstance", "ptmxmode=0666", "mode=0620"),
		mount("/dev/shm", "tmpfs", "shm"),
		mount("/dev/mqueue", "mqueue", "mqueue"),
		mount("/sys", "sysfs", "sysfs"),
		mount("/sys/fs/cgroup", "cgroup", "cgroup", "rw"),
		mount("/run", "tmpfs", "tmpfs", "mode=755"),
		mount("/tmp", "tmpfs", "tmpfs", "mode=1777"),
		mount("/var/lib/containerd", "bind", filepath.Join(one.dir, "containerd"), "rbind"),
		mount("/var/lib/kubelet", "bind", filepath.Join(one.dir, "kubelet"), "rbind"),
		mount(VolumesOnNodes, "bind", n.Volumes(), "rbind"),
		mount("/var/log", "bind", one.log, "rbind"),
		mount("/opt/lab", "bind", one.lab(), "rbind", "ro"),
		mount("/opt/lab/images", "bind", n.options.Images, "rbind", "ro"),
		mount("/opt/lab/kubelet", "bind", n.options.Kubelet, "rbind", "ro"),
	}
	for target, program := range map[string]string{"/opt/lab/kube-proxy": n.options.Proxy, "/usr/lib/cni/multus": n.options.Multus} {
		if program != "" {
			all = append(all, mount(target, "bind", program, "rbind", "ro"))
		}
	}
	return all
}

// devices returns the devices of a node, besides those of every container. They are not the machine's: changes of their owners and modes
// stay in the node.
func devices(kvm bool) []object {
	device := func(path string, major, minor int64, mode os.FileMode) object {
		return object{"path": path, "type": "c", "major": major, "minor": minor, "fileMode": mode}
	}
	all := []object{
		device("/dev/kmsg", 1, 11, 0o644),
		device("/dev/fuse", 10, 229, 0o600),
		device("/dev/net/tun", 10, 200, 0o666),
	}
	if kvm {
		all = append(all, device("/dev/kvm", 10, 232, 0o666))
	}
	return all
}

// HasKVM reports whether this machine virtualizes for guests in hardware. Others may have /dev/kvm, too, and emulate it at a
// millionth of the speed.
func HasKVM() bool { return hasKVM("/") }

func hasKVM(root string) bool {
	if _, err := os.Stat(filepath.Join(root, "dev/kvm")); err != nil {
		return false
	}
	for _, module := range []string{"sys/module/kvm_intel", "sys/module/kvm_amd"} {
		if _, err := os.Stat(filepath.Join(root, module)); err == nil {
			return true
		}
	}
	return false
}
