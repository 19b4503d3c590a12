// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Files in the folder of a guest.
const (
	instanceFile  = "instance.json"
	launchFile    = "launch.json"
	secretsFolder = "secrets"
	domainFile    = "domain.xml" // written by the launcher
	libvirtFolder = "libvirt"
	monitorSocket = "monitor"
	agentSocket   = "agent"
)

// launch is the launcher's input besides the VirtualMachineInstance and the Secrets.
type launch struct {
	Disks   map[string]string `json:"disks"` // files by the names of volumes
	Console string            `json:"console"`
	Monitor string            `json:"monitor"`
	Agent   string            `json:"agent"`
}

// prepare makes the folder of a guest, with everything that its launcher pod would have.
func (g *guest) prepare(ctx context.Context) error {
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return fmt.Errorf("create folder of guest: %w", err)
	}
	disks, err := g.hypervisor.openDisks(ctx, g.boot.Disks)
	if err != nil {
		return err
	}
	err = errors.Join(
		g.writeJSON(instanceFile, g.boot.Instance),
		g.writeJSON(launchFile, launch{
			Disks:   disks,
			Console: g.console,
			Monitor: filepath.Join(g.dir, monitorSocket),
			Agent:   filepath.Join(g.dir, agentSocket),
		}),
		g.writeSecrets(),
		g.configureLibvirt(),
	)
	if err != nil {
		return err
	}
	return runProgram(ctx, g.hypervisor.options.Launcher, g.dir)
}

func (g *guest) writeJSON(name string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return g.write(name, data)
}

func (g *guest) write(name string, data []byte) error {
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeSecrets writes the keys of the Secrets where virt-controller mounts them in launcher pods.
func (g *guest) writeSecrets() error {
	var failed error
	put := func(secret, folder string) {
		for key, value := range g.boot.Secrets[secret] {
			failed = errors.Join(failed, g.write(filepath.Join(secretsFolder, folder, key), value))
		}
	}
	for _, volume := range g.boot.Instance.Spec.Volumes {
		for _, secret := range cloudInitSecrets(volume) {
			put(secret, volume.Name)
		}
	}
	for _, credential := range g.boot.Instance.Spec.AccessCredentials {
		if key := credential.SSHPublicKey; key != nil && key.Source.Secret != nil {
			put(key.Source.Secret.SecretName, key.Source.Secret.SecretName+"-access-cred")
		}
	}
	return failed
}

// cloudInitSecrets returns the names of a volume's Secrets.
func cloudInitSecrets(volume kubevirtv1.Volume) []string {
	var names []string
	if source := volume.CloudInitNoCloud; source != nil {
		if source.UserDataSecretRef != nil {
			names = append(names, source.UserDataSecretRef.Name)
		}
		if source.NetworkDataSecretRef != nil {
			names = append(names, source.NetworkDataSecretRef.Name)
		}
	}
	if source := volume.CloudInitConfigDrive; source != nil {
		if source.UserDataSecretRef != nil {
			names = append(names, source.UserDataSecretRef.Name)
		}
		if source.NetworkDataSecretRef != nil {
			names = append(names, source.NetworkDataSecretRef.Name)
		}
	}
	return names
}

// qemuConf turns off what only libvirt's daemon, as root, can do.
const qemuConf = `security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
`

func (g *guest) configureLibvirt() error {
	return g.write(filepath.Join(libvirtFolder, "etc", "qemu.conf"), []byte(qemuConf))
}
