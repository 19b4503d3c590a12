// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// table returns the resources of the shoot, from the Infrastructure to the Nodes.
func (d *demo) table(ctx context.Context) (string, error) {
	var rows []string

	for _, part := range []func(context.Context) ([]string, error){d.extensionResources, d.controlPlane, d.machineResources, d.virtualMachines} {
		more, err := part(ctx)
		if err != nil {
			return "", err
		}

		rows = append(rows, more...)
	}

	if len(rows) == 0 {
		return "  (nothing)", nil
	}

	var b strings.Builder

	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "  KIND\tNAME\tSTATE") // A strings.Builder never fails.
	_, _ = fmt.Fprintln(w, strings.Join(rows, "\n"))
	_ = w.Flush()

	return strings.TrimRight(b.String(), "\n"), nil
}

func row(kind, name, state string) string { return "  " + kind + "\t" + name + "\t" + state }

func (d *demo) extensionResources(ctx context.Context) ([]string, error) {
	var rows []string

	for _, object := range []extensionsv1alpha1.Object{&extensionsv1alpha1.Infrastructure{}, &extensionsv1alpha1.ControlPlane{}, &extensionsv1alpha1.Worker{}} {
		err := d.seed.Client.Get(ctx, client.ObjectKey{Namespace: d.shoot.Namespace, Name: d.shoot.Object.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}

		if err != nil {
			continue
		}

		state := "-"
		if operation := object.GetExtensionStatus().GetLastOperation(); operation != nil {
			state = string(operation.Type) + " " + string(operation.State)
		}

		if failed := object.GetExtensionStatus().GetLastError(); failed != nil {
			state += ": " + failed.Description
		}

		rows = append(rows, row(kindOf(object), object.GetName(), state))
	}

	return rows, nil
}

func kindOf(object extensionsv1alpha1.Object) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1.")
}

// controlPlane returns the Deployments of the control plane.
func (d *demo) controlPlane(ctx context.Context) ([]string, error) {
	list := &appsv1.DeploymentList{}
	if err := d.seed.Client.List(ctx, list, client.InNamespace(d.shoot.Namespace)); err != nil {
		return nil, err
	}

	var rows []string
	for _, o := range list.Items {
		rows = append(rows, row("Deployment", o.Name, fmt.Sprintf("%d of %d ready", o.Status.ReadyReplicas, ptr.Deref(o.Spec.Replicas, 1))))
	}

	return rows, nil
}

func (d *demo) machineResources(ctx context.Context) ([]string, error) {
	deployments := &machinev1alpha1.MachineDeploymentList{}
	machines := &machinev1alpha1.MachineList{}
	for _, list := range []client.ObjectList{deployments, machines} {
		if err := d.seed.Client.List(ctx, list, client.InNamespace(d.shoot.Namespace)); err != nil {
			return nil, err
		}
	}

	var rows []string
	for _, o := range deployments.Items {
		rows = append(rows, row("MachineDeployment", o.Name, fmt.Sprintf("%d of %d ready, class %s", o.Status.ReadyReplicas, o.Spec.Replicas, o.Spec.Template.Spec.Class.Name)))
	}

	for _, o := range machines.Items {
		rows = append(rows, row("Machine", o.Name, cmp.Or(string(o.Status.CurrentStatus.Phase), "-")))
	}

	return rows, nil
}

func (d *demo) virtualMachines(ctx context.Context) ([]string, error) {
	vms := &kubevirtv1.VirtualMachineList{}
	if err := d.seed.Provider.List(ctx, vms, client.InNamespace(d.shoot.ProviderNamespace)); err != nil {
		return nil, err
	}

	var rows, nodes []string

	for _, vm := range vms.Items {
		rows = append(rows, row("VirtualMachine", vm.Name, string(vm.Status.PrintableStatus)))

		node := &corev1.Node{}
		if err := d.seed.Target.Get(ctx, client.ObjectKey{Name: vm.Name}, node); err == nil {
			nodes = append(nodes, row("Node", node.Name, readiness(node)))
		}
	}

	return append(rows, nodes...), nil
}

func readiness(node *corev1.Node) string {
	if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		return "Ready"
	}

	return "NotReady"
}
