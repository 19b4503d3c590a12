// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// The MachineClasses of kubernetes/example and their MachineDeployments have the same names.
const (
	classZ1     = "example-worker-z1"
	classZ2     = "example-worker-z2"
	classZX     = "example-worker-zx" // created by the demo
	emptyZone   = "zone-x"
	manifests   = "kubernetes/example"
	credentials = "cloudprovider"

	resourceExhausted = "ResourceExhausted"
	unschedulableVM   = "ErrorUnschedulable"
)

func (d *demo) createWorkers(ctx context.Context) error {
	d.out.Line("Gardener creates one MachineClass and one MachineDeployment per worker pool and zone, and a Secret with the kubeconfig")
	d.out.Line("of the provider cluster. Here, two machines run in zone-a, and one in zone-b.")
	err := d.kubectl(ctx, d.control(), "create", "secret", "generic", credentials, "--from-file=kubeconfig="+d.lab.Shoot.ProviderKubeconfig)
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, d.control(), "apply", "-f", manifests); err != nil {
		return err
	}
	return d.awaitWorkers(ctx, workers{classZ1: 2, classZ2: 1})
}

func (d *demo) scaleUp(ctx context.Context) error {
	d.out.Line("cluster-autoscaler does the same when pods find no room.")
	if err := d.scale(ctx, 3, 2); err != nil {
		return err
	}
	return d.awaitWorkers(ctx, workers{classZ1: 3, classZ2: 2})
}

func (d *demo) scaleDown(ctx context.Context) error {
	d.out.Line("Each deleted machine is drained first; then its VM is shut down and deleted, with its disk and its Secret.")
	d.out.Line("machine-controller-manager does this in five steps, five seconds apart. The next chapter begins meanwhile.")
	return d.scale(ctx, 1, 0)
}

func (d *demo) scale(ctx context.Context, z1, z2 int) error {
	for _, to := range []struct {
		deployment string
		replicas   int
	}{{classZ1, z1}, {classZ2, z2}} {
		err := d.kubectl(ctx, d.control(), "scale", "machinedeployment", to.deployment, fmt.Sprintf("--replicas=%d", to.replicas))
		if err != nil {
			return err
		}
	}
	return nil
}

// useEmptyZone requests a machine in a zone without nodes, while machines are deleted.
func (d *demo) useEmptyZone(ctx context.Context) error {
	d.out.Line("%s is a copy of %s for %s, which has no nodes.", classZX, classZ1, emptyZone)
	d.out.Line("Its VM cannot be scheduled, and the Machine reports %s: cluster-autoscaler then tries another zone.", resourceExhausted)
	copied, err := d.copyForEmptyZone(ctx)
	if err != nil {
		return err
	}
	if err := d.kubectlWith(ctx, d.control(), copied, "apply", "-f", "-"); err != nil {
		return err
	}
	expected := fmt.Sprintf("a machine of %s whose VM is %s and whose last operation reports %s", classZX, unschedulableVM, resourceExhausted)
	seen, err := d.await(ctx, expected, unschedulable)
	if err != nil {
		return err
	}
	d.out.Line("Seen: %s. Its last operation in full:", expected)
	for _, r := range seen.rows() {
		if r.class == classZX {
			d.out.Line("%s", indent(oneLine(r.description)))
		}
	}
	// The next chapter deletes it with all others: a deletion takes half a minute.
	return d.awaitWorkersBeside(ctx, workers{classZ1: 1, classZ2: 0}, classZX)
}

// unschedulable returns the unmet condition until the machine in the empty zone
// reports why it cannot run.
func unschedulable(s snapshot) string {
	for _, r := range s.rows() {
		if r.class != classZX {
			continue
		}
		if r.vm == unschedulableVM && r.errorCode == resourceExhausted {
			return ""
		}
		return fmt.Sprintf("VM %s, error code %q", r.vm, r.errorCode)
	}
	return "no machine of " + classZX
}

// copyForEmptyZone returns copies of the first MachineClass and its MachineDeployment,
// adapted to the empty zone.
func (d *demo) copyForEmptyZone(ctx context.Context) ([]byte, error) {
	output, err := d.execute(d.kubectlCommand(ctx, d.control(), "get", "machineclass/"+classZ1, "machinedeployment/"+classZ1, "--output=json"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", classZ1, err)
	}
	return inZone(output, classZ1, classZX, emptyZone)
}

func (d *demo) deleteAll(ctx context.Context) error {
	if err := d.kubectl(ctx, d.control(), "delete", "machinedeployments", "--all", "--wait=false"); err != nil {
		return err
	}
	d.out.Line("Gardener deletes the classes while machines still exist. After the last machine, machine-controller-manager releases the classes")
	d.out.Line("and their Secrets.")
	if err := d.kubectl(ctx, d.control(), "delete", "machineclasses", "--all", "--wait=false"); err != nil {
		return err
	}
	if err := d.awaitWorkers(ctx, workers{}); err != nil {
		return err
	}
	const timeout = "--timeout=1m"
	if err := d.kubectl(ctx, d.control(), "delete", "machineclasses", "--all", timeout); err != nil {
		return err
	}
	if err := d.kubectl(ctx, d.control(), "delete", "secrets", credentials, "example-worker-userdata", timeout); err != nil {
		return err
	}
	d.out.Line("The class of the second zone had no machine, so that the driver was not called when it was deleted. It may have kept the golden")
	d.out.Line("image for this class; docs/images.md has the command that deletes the images of a shoot.")
	images := "kubevirt.machine.gardener.cloud/golden-image,!mcm.gardener.cloud/role,mcm.gardener.cloud/cluster=" + d.lab.Shoot.Namespace
	return d.kubectl(ctx, d.provider(), "delete", "datavolumes", "--selector", images, timeout)
}
