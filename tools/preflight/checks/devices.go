// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// devices are the GPUs and the other devices of the provider nodes that a machine receives: the resource names of
// device plugins, and the claims of dynamic resource allocation.
type devices struct {
	plugins []string
	claims  []kubevirtv1.VirtualMachineInstanceResourceClaim
	// gates are the feature gates of KubeVirt for the claims.
	gates []gate
}

// devicesOf returns the devices of a class and of its instancetype.
func devicesOf(ctx context.Context, r *reader, c *class) *devices {
	instance := c.instance()
	instancetype := r.instancetype(ctx, c.instancetype())
	d := &devices{claims: instance.ResourceClaims}

	for _, gpu := range slices.Concat(instance.Domain.Devices.GPUs, instancetype.GPUs) {
		d.add(gpu.DeviceName, gpu.ClaimRequest, gateGPUsWithDRA)
	}

	for _, device := range slices.Concat(instance.Domain.Devices.HostDevices, instancetype.HostDevices) {
		d.add(device.DeviceName, device.ClaimRequest, gateHostDevicesWithDRA)
	}

	return d
}

func (d *devices) add(plugin string, claim *kubevirtv1.ClaimRequest, g gate) {
	switch {
	case claim != nil && !slices.Contains(d.gates, g):
		d.gates = append(d.gates, g)
	case plugin != "" && !slices.Contains(d.plugins, plugin):
		d.plugins = append(d.plugins, plugin)
	}
}

// checkDevices checks that KubeVirt permits the devices of the machines, that nodes of the zone have them, and that
// the templates and the DeviceClasses of claims exist.
func checkDevices(ctx context.Context, r *reader, c *class) []Result {
	d := devicesOf(ctx, r, c)

	var results []Result

	for _, name := range d.plugins {
		results = append(results, checkPermitted(ctx, r, name)...)
		results = append(results, checkPlugin(ctx, r, c, name)...)
	}

	for _, g := range d.gates {
		results = append(results, checkGate(ctx, r, g)...)
	}

	for i := range d.claims {
		results = append(results, checkClaim(ctx, r, c, &d.claims[i])...)
	}

	return results
}

// checkPermitted checks that KubeVirt lets machines use the devices of a resource.
func checkPermitted(ctx context.Context, r *reader, name string) []Result {
	s := r.about("device " + name)

	kubeVirt, err := r.kubeVirt(ctx)
	if err != nil {
		return s.notChecked(err, "kubectl get kubevirts --all-namespaces --output=yaml")
	}

	permitted := ptr.Deref(kubeVirt.Spec.Configuration.PermittedHostDevices, kubevirtv1.PermittedHostDevices{})
	if slices.ContainsFunc(permitted.PciHostDevices, func(p kubevirtv1.PciHostDevice) bool { return p.ResourceName == name }) ||
		slices.ContainsFunc(permitted.MediatedDevices, func(m kubevirtv1.MediatedHostDevice) bool { return m.ResourceName == name }) ||
		slices.ContainsFunc(permitted.USB, func(u kubevirtv1.USBHostDevice) bool { return u.ResourceName == name }) {
		return s.ok("is permitted by KubeVirt")
	}

	return s.fail("KubeVirt does not permit it", "add it to spec.configuration.permittedHostDevices: "+kubectlIn(kubeVirt.Namespace, "edit kubevirt", kubeVirt.Name))
}

// checkPlugin checks that a device plugin advertises the resource on a node of the machine's zone.
func checkPlugin(ctx context.Context, r *reader, c *class, name string) []Result {
	in := diagnose.Topology{Region: c.Machine.Spec.Region, Zone: c.Machine.Spec.Zone}
	s := r.about(fmt.Sprintf("device %s in region %s, zone %s", name, in.Region, in.Zone))
	command := "kubectl get nodes --output=yaml --selector=" + quoted(selector(in))

	nodes, err := r.nodes(ctx)
	if err != nil {
		return s.notChecked(err, command)
	}

	with := 0

	for _, n := range nodes {
		if diagnose.TopologyOfNode(n.Labels) == in && !n.Status.Allocatable.Name(corev1.ResourceName(name), resource.DecimalSI).IsZero() {
			with++
		}
	}

	if with == 0 {
		return s.fail("no node has it", "check that the nodes have the device and its driver, and that a device plugin (or KubeVirt itself) advertises it in status.allocatable: "+command)
	}

	return s.ok(fmt.Sprintf("nodes that have it: %d", with))
}

// checkGate checks that KubeVirt passes the devices of claims to machines.
func checkGate(ctx context.Context, r *reader, g gate) []Result {
	s := r.about("feature gate " + g.name)

	kubeVirt, err := r.kubeVirt(ctx)
	if err != nil {
		return s.notChecked(err, "kubectl get kubevirts --all-namespaces --output=yaml")
	}

	switch {
	case olderThan(kubeVirt, g.knownSince):
		return s.fail("KubeVirt "+kubeVirt.Status.ObservedKubeVirtVersion+" does not have it", "upgrade KubeVirt to "+g.knownSince+" or newer, or use deviceName instead of claimName")
	case !g.on(kubeVirt):
		return s.fail("is off, so that KubeVirt refuses resourceClaims", "add it to spec.configuration.developerConfiguration.featureGates: "+kubectlIn(kubeVirt.Namespace, "edit kubevirt", kubeVirt.Name))
	}

	return s.ok("is on")
}

// checkClaim checks that the template of a claim and its DeviceClasses exist.
func checkClaim(ctx context.Context, r *reader, c *class, claim *kubevirtv1.VirtualMachineInstanceResourceClaim) []Result {
	of := &reference{
		kind:      kindClaimTemplate,
		namespace: c.namespace,
		name:      ptr.Deref(claim.ResourceClaimTemplateName, ""),
		field:     c.field("spec.template.spec.resourceClaims"),
	}
	if of.name == "" {
		return nil // The dry run shows a claim that is shared by name.
	}

	if _, err := r.object(ctx, of); unknownType(err) {
		return r.about(of.subject()).warn("not checked, since the provider cluster does not serve resource.k8s.io/v1",
			"upgrade Kubernetes to 1.34 or newer, or check it yourself: "+kubectlIn(c.namespace, "get "+of.kind.kubectl()))
	}

	found, results := existence(ctx, r, of)

	template, ok := found.(*resourcev1.ResourceClaimTemplate)
	if !ok {
		return results
	}

	for _, name := range deviceClasses(&template.Spec.Spec) {
		_, exists := existence(ctx, r, &reference{kind: kindDeviceClass, name: name, field: "the request in " + of.subject()})
		results = append(results, exists...)
	}

	return results
}

// deviceClasses returns the DeviceClasses of a claim, each once.
func deviceClasses(spec *resourcev1.ResourceClaimSpec) []string {
	var names []string

	for _, request := range spec.Devices.Requests {
		if request.Exactly != nil {
			names = append(names, request.Exactly.DeviceClassName)
		}

		for _, alternative := range request.FirstAvailable {
			names = append(names, alternative.DeviceClassName)
		}
	}

	slices.Sort(names)

	return slices.Compact(names)
}
