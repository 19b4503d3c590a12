// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
)

// Reasons of causes that only diagnose --all reports. docs/troubleshooting.md has a row for each.
const (
	reasonDeploymentRefused       = "MachineDeploymentRefused"
	reasonDeploymentPaused        = "MachineDeploymentPaused"
	reasonDeploymentNotReconciled = "MachineDeploymentNotReconciled"
)

// deploymentReasons are the reasons in the order of the page.
var deploymentReasons = []string{reasonDeploymentRefused, reasonDeploymentPaused, reasonDeploymentNotReconciled}

// Deployment is a MachineDeployment that machine-controller-manager does not act on: its Machines
// cannot be diagnosed, since there may be none.
type Deployment struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas is the number of Machines that it wants, and Machines the number of those that exist.
	Replicas int    `json:"replicas"`
	Machines int    `json:"machines"`
	Cause    *Cause `json:"cause"`
}

// diagnoseDeployments returns the MachineDeployments of the namespace that machine-controller-manager does not
// act on, and why they could not be read.
func (d *Diagnoser) diagnoseDeployments(ctx context.Context) (found []Deployment, unread []string) {
	deployments, err := d.Control.Machines.MachineDeployments(d.Control.Namespace).List(ctx, metav1.ListOptions{})

	switch {
	case apierrors.IsNotFound(err): // machine-controller-manager is not installed.
		return nil, nil
	case err != nil:
		return nil, []string{"list MachineDeployments in " + d.Control.Where() + ": " + err.Error()}
	}

	machines, err := d.Control.Machines.Machines(d.Control.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, []string{"list Machines in " + d.Control.Where() + ": " + err.Error()}
	}

	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		existing := machinesOf(deployment, machines.Items)

		if cause := d.deploymentCause(ctx, deployment, existing, time.Now()); cause != nil {
			found = append(found, Deployment{
				Namespace: deployment.Namespace,
				Name:      deployment.Name,
				Replicas:  int(deployment.Spec.Replicas),
				Machines:  existing,
				Cause:     cause,
			})
		}
	}

	return found, unread
}

// machinesOf returns the number of Machines that a MachineDeployment selects.
func machinesOf(deployment *v1alpha1.MachineDeployment, machines []v1alpha1.Machine) int {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return 0
	}

	count := 0

	for i := range machines {
		if machines[i].Namespace == deployment.Namespace && selector.Matches(labels.Set(machines[i].Labels)) {
			count++
		}
	}

	return count
}

// deploymentCause returns why machine-controller-manager does not act on a MachineDeployment; nil if it does.
func (d *Diagnoser) deploymentCause(ctx context.Context, deployment *v1alpha1.MachineDeployment, machines int, now time.Time) *Cause {
	in := &foundMachine{namespace: deployment.Namespace}
	show := in.kubectl("get machinedeployment " + deployment.Name + " --output=yaml")

	if errs := manifests.DeploymentErrors(deployment); len(errs) > 0 {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}

		return &Cause{
			Reason:  reasonDeploymentRefused,
			Message: "machine-controller-manager refuses the MachineDeployment, and only logs why: " + strings.Join(texts, "; "),
			Remedy:  "correct the fields of the MachineDeployment; mcm-kubevirt validate checks them",
			Retry:   &Retry{When: "as soon as the MachineDeployment is changed; no command is needed", Command: show},
		}
	}

	if deployment.Spec.Replicas == 0 || machines > 0 {
		return nil
	}

	for _, state := range d.controllersIn(ctx, deployment.Namespace) {
		if state.Name == controlcluster.Manager && state.State == controlcluster.Stopped {
			return in.controllerCause(&state, now)
		}
	}

	age := now.Sub(deployment.CreationTimestamp.Time)

	switch {
	case deployment.Spec.Paused:
		return &Cause{
			Reason:  reasonDeploymentPaused,
			Message: "spec.paused is set, so no Machine is created",
			Remedy:  "remove spec.paused",
			Retry:   &Retry{When: "as soon as the MachineDeployment is changed; no command is needed", Command: show},
		}
	case age < finalizerTimeout || deployment.DeletionTimestamp != nil:
		return nil
	default:
		return &Cause{
			Reason:  reasonDeploymentNotReconciled,
			Message: fmt.Sprintf("no Machine has been created, although the MachineDeployment exists since %s", deployment.CreationTimestamp.UTC().Format(time.RFC3339)),
			Remedy:  "check that machine-controller-manager is running with --namespace=" + deployment.Namespace + ", and read its log",
			Retry: &Retry{
				When:    "as soon as the controller is running",
				Command: in.kubectl("logs deployment/" + controlcluster.Manager + " --container=" + controlcluster.Manager),
			},
		}
	}
}
