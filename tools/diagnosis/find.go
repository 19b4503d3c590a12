// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
)

// find reads a Machine or, if there is none, the classes that it may have had.
func (d *Diagnoser) find(ctx context.Context, name types.NamespacedName) (*foundMachine, error) {
	found := &foundMachine{namespace: name.Namespace, overridden: d.Kubeconfig != nil}

	if d.Control == nil {
		found.requests = []kubevirt.ExplainRequest{d.request(nameOnly(name.Name), d.class, nil)}

		return found, nil
	}

	control := d.Control.In(name.Namespace)

	switch machine, err := control.Machines.Machines(control.Namespace).Get(ctx, name.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return found, d.findClasses(ctx, control, name.Name, found)
	case err != nil:
		return nil, fmt.Errorf("get Machine %s: %w", name, err)
	default:
		found.machine = machine

		return found, d.findClass(ctx, control, found)
	}
}

// findClass reads the objects that a Machine refers to. A missing object is a cause; an
// unreadable one is an error.
func (d *Diagnoser) findClass(ctx context.Context, control *controlcluster.Cluster, found *foundMachine) error {
	machine := found.machine

	class, err := control.Machines.MachineClasses(found.namespace).Get(ctx, machine.Spec.Class.Name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get MachineClass %s/%s of the Machine: %w", found.namespace, machine.Spec.Class.Name, err)
	}

	found.class = class
	found.secrets = control.SecretsOf(ctx, class, found.namespace)

	switch err := found.secrets.Err(class, controlcluster.SecretNotRead); {
	case found.overridden: // These credentials may have fewer permissions than the driver's.
		machine = nameOnly(machine.Name)
		machine.Spec.ProviderID = found.machine.Spec.ProviderID
		machine.DeletionTimestamp = found.machine.DeletionTimestamp
	case err != nil:
		return err
	case found.secretCause() != nil:
		return nil // The driver could not read the provider cluster either.
	}

	request := d.request(machine, class, found.secrets.Data)
	request.Console = request.Console && found.machine.Status.CurrentStatus.Phase != v1alpha1.MachineRunning
	found.requests = []kubevirt.ExplainRequest{request}

	return nil
}

// findClasses returns the MachineClasses that a deleted Machine may have had: one for each
// combination of tags and kubeconfig.
func (d *Diagnoser) findClasses(ctx context.Context, control *controlcluster.Cluster, name string, found *foundMachine) error {
	list, err := control.Machines.MachineClasses(found.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list MachineClasses in %s: %w", found.namespace, err)
	}

	for i := range list.Items {
		var data map[string][]byte

		if !found.overridden {
			if data, err = control.SecretData(ctx, &list.Items[i]); err != nil {
				found.unread = append(found.unread, err.Error())

				continue
			}
		}

		request := d.request(nameOnly(name), &list.Items[i], data)
		if !slices.ContainsFunc(found.requests, func(other kubevirt.ExplainRequest) bool { return sameAddress(&request, &other) }) {
			found.requests = append(found.requests, request)
		}
	}

	if len(found.requests) == 0 {
		return fmt.Errorf("the Machine %s/%s does not exist, and no MachineClass refers to a provider cluster to search%s; "+
			"set --provider-kubeconfig and --cluster", found.namespace, name, notRead(found.unread))
	}

	return nil
}

func sameAddress(a, b *kubevirt.ExplainRequest) bool {
	return machineclass.Identity(a.MachineClass) == machineclass.Identity(b.MachineClass) &&
		bytes.Equal(a.Secret.Data[apiv1alpha1.SecretKeyKubeconfig], b.Secret.Data[apiv1alpha1.SecretKeyKubeconfig])
}

func (d *Diagnoser) request(machine *v1alpha1.Machine, class *v1alpha1.MachineClass, data map[string][]byte) kubevirt.ExplainRequest {
	if d.Kubeconfig != nil {
		data = map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: d.Kubeconfig}
	}

	// The driver's own account has no permission to read consoles.
	return kubevirt.ExplainRequest{
		Machine:      machine,
		MachineClass: class,
		Secret:       &corev1.Secret{Data: data},
		Console:      d.Kubeconfig != nil,
		ConsoleLines: d.ConsoleLines,
	}
}

// otherServer says that the kubeconfig in the Secret of a class leads, or may lead, to another cluster than
// --provider-kubeconfig, on which nothing was found; empty if both lead to the same.
func otherServer(ctx context.Context, override, inSecret []byte, e *kubevirt.Explanation) string {
	clients := providerapi.NewCache(providerapi.Options{QPS: diagnoseQPS, Burst: diagnoseQPS})
	given, err := clients.For(override)
	named, secretErr := clients.For(inSecret)

	if err != nil || secretErr != nil || given.Server == named.Server {
		return ""
	}

	const text = "nothing of the machine was found on server %s of --provider-kubeconfig, which %s the cluster of the MachineClass's Secret, %s: " +
		"set --provider-kubeconfig to a kubeconfig of that cluster, or remove it"

	switch same, known := providerapi.SameCluster(ctx, given, named); {
	case same:
		return ""
	case known || e.Cause == nil:
		return fmt.Sprintf(text, given.Server, "is not", named.Server)
	default:
		return fmt.Sprintf(text+"; if it is that cluster, the cause is %s: %s", given.Server, "may not be", named.Server, e.Cause.Err.Reason, e.Cause.Err.Message)
	}
}

// nameOnly returns a Machine of which only the name is known.
func nameOnly(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// search looks for the machine on each provider cluster where it may be, until it finds one of its
// objects, or a foreign object with its name. If there are several clusters, a cluster that cannot
// be read is listed in unread, but is not the cause: the machine may be on another one.
func (d *Diagnoser) search(ctx context.Context, found *foundMachine) (last *kubevirt.Explanation) {
	alone := len(found.requests) == 1 && len(found.unread) == 0

	for i := range found.requests {
		e := kubevirt.Explain(ctx, d.explainer, &found.requests[i], d.Allowed)

		switch {
		case e.Found() || alone:
			return e
		case e.Machine == nil:
			found.unread = append(found.unread, fmt.Sprintf("with MachineClass %s: %s: %s",
				found.requests[i].MachineClass.Name, e.Cause.Err.Reason, e.Cause.Err.Message))
		}

		if last == nil || e.Machine != nil {
			last = e
		}
	}

	return last
}
