// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command launcher does what virt-launcher does before it starts a guest: it writes the guest's
// cloud-init disk and its libvirt domain, with KubeVirt's own code.
//
//	launcher FOLDER
//
// The lab's hypervisor (test/lab/guest) runs it for each boot, in a folder with the
// VirtualMachineInstance, the Secrets as they are mounted in a launcher pod, and the files of the disks. It
// starts nothing. It is a module of its own, since its KubeVirt is the version of the lab's provider
// cluster, not that of the driver's client.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cloudinit "kubevirt.io/kubevirt/pkg/cloud-init"
	diskutils "kubevirt.io/kubevirt/pkg/ephemeral-disk-utils"
)

// launch is the content of launch.json.
type launch struct {
	Disks   map[string]string `json:"disks"` // files by the names of volumes
	Console string            `json:"console"`
	Monitor string            `json:"monitor"`
	Agent   string            `json:"agent"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "launcher:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: launcher FOLDER")
	}
	folder := args[0]
	var instance kubevirtv1.VirtualMachineInstance
	var start launch
	if err := errors.Join(
		readJSON(filepath.Join(folder, "instance.json"), &instance),
		readJSON(filepath.Join(folder, "launch.json"), &start),
	); err != nil {
		return err
	}
	diskutils.MockDefaultOwnershipManager() // it would look for KubeVirt's user
	iso, err := writeCloudInit(folder, &instance)
	if err != nil {
		return fmt.Errorf("write the cloud-init disk: %w", err)
	}
	domain, err := convert(&instance)
	if err != nil {
		return fmt.Errorf("convert the VirtualMachineInstance: %w", err)
	}
	if err := adapt(domain, &instance, start, iso); err != nil {
		return fmt.Errorf("adapt the domain: %w", err)
	}
	data, err := encode(domain)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "domain.xml"), data, 0o600)
}

func readJSON(file string, into any) error {
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", filepath.Base(file), err)
	}
	return nil
}

// writeCloudInit writes the instance's cloud-init disk and returns its path, or "" if it has none.
func writeCloudInit(folder string, instance *kubevirtv1.VirtualMachineInstance) (string, error) {
	if err := cloudinit.SetLocalDirectory(filepath.Join(folder, "cloud-init")); err != nil {
		return "", err
	}
	data, err := cloudinit.ReadCloudInitVolumeDataSource(instance, filepath.Join(folder, "secrets"))
	if err != nil || data == nil {
		return "", err
	}
	if err := cloudinit.PrepareLocalPath(instance.Name, instance.Namespace); err != nil {
		return "", err
	}
	if err := cloudinit.GenerateLocalData(instance, "", data); err != nil {
		return "", err
	}
	return cloudinit.GetIsoFilePath(data.DataSource, instance.Name, instance.Namespace), nil
}
