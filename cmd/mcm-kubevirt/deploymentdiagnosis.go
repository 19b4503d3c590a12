package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Reasons of causes that only diagnose --all reports. docs/diagnose.md has a row for each.
const (
	reasonDeploymentRefused       = "MachineDeploymentRefused"
	reasonDeploymentPaused        = "MachineDeploymentPaused"
	reasonDeploymentNotReconciled = "MachineDeploymentNotReconciled"
)

// deploymentReasons are the reasons in the order of the page.
var deploymentReasons = []string{reasonDeploymentRefused, reasonDeploymentPaused, reasonDeploymentNotReconciled}

// deploymentDiagnosis is a MachineDeployment that machine-controller-manager does not act on: its Machines
// cannot be diagnosed, since there may be none.
type deploymentDiagnosis struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Replicas is the number of Machines that it wants, and Machines the number of those that exist.
	Replicas int          `json:"replicas"`
	Machines int          `json:"machines"`
	Cause    *causeReport `json:"cause"`
}

// diagnoseDeployments returns the MachineDeployments of the namespace that machine-controller-manager does not
// act on, and why they could not be read.
func (d *diagnoser) diagnoseDeployments(ctx context.Context) (found []deploymentDiagnosis, unread []string) {
	deployments, err := d.control.Machines.MachineDeployments(d.control.Namespace).List(ctx, metav1.ListOptions{})

	switch {
	case apierrors.IsNotFound(err): // machine-controller-manager is not installed.
		return nil, nil
	case err != nil:
		return nil, []string{statustext.Printable("list MachineDeployments in " + d.control.where() + ": " + err.Error())}
	}

	machines, err := d.control.machines().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, []string{statustext.Printable("list Machines in " + d.control.where() + ": " + err.Error())}
	}

	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		existing := machinesOf(deployment, machines.Items)

		if cause := d.deploymentCause(ctx, deployment, existing, time.Now()); cause != nil {
			sanitize(&cause.Message, &cause.Remedy)
			found = append(found, deploymentDiagnosis{
				Namespace: deployment.Namespace,
				Name:      statustext.Printable(deployment.Name),
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
func (d *diagnoser) deploymentCause(ctx context.Context, deployment *v1alpha1.MachineDeployment, machines int, now time.Time) *causeReport {
	in := &foundMachine{namespace: deployment.Namespace}
	show := in.kubectl("get machinedeployment " + statustext.Printable(deployment.Name) + " --output=yaml")

	if errs := deploymentErrors(deployment); len(errs) > 0 {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}

		return &causeReport{
			Reason:  reasonDeploymentRefused,
			Message: "machine-controller-manager refuses the MachineDeployment, and only logs why: " + strings.Join(texts, "; "),
			Remedy:  "correct the fields of the MachineDeployment; mcm-kubevirt validate checks them",
			Retry:   &retryHint{When: "as soon as the MachineDeployment is changed; no command is needed", Command: show},
		}
	}

	if deployment.Spec.Replicas == 0 || machines > 0 {
		return nil
	}

	for _, state := range d.controllersIn(ctx, deployment.Namespace) {
		if state.Name == manager && state.State == stopped {
			return in.controllerCause(&state, now)
		}
	}

	age := now.Sub(deployment.CreationTimestamp.Time)

	switch {
	case deployment.Spec.Paused:
		return &causeReport{
			Reason:  reasonDeploymentPaused,
			Message: "spec.paused is set, so no Machine is created",
			Remedy:  "remove spec.paused",
			Retry:   &retryHint{When: "as soon as the MachineDeployment is changed; no command is needed", Command: show},
		}
	case age < finalizerTimeout || deployment.DeletionTimestamp != nil:
		return nil
	default:
		return &causeReport{
			Reason:  reasonDeploymentNotReconciled,
			Message: fmt.Sprintf("no Machine has been created, although the MachineDeployment exists since %s", deployment.CreationTimestamp.UTC().Format(time.RFC3339)),
			Remedy:  "check that machine-controller-manager is running with --namespace=" + deployment.Namespace + ", and read its log",
			Retry: &retryHint{
				When:    "as soon as the controller is running",
				Command: in.kubectl("logs deployment/" + manager + " --container=" + manager),
			},
		}
	}
}

// deployed describes the MachineDeployments without Machines.
func deployed(deployments []deploymentDiagnosis) string {
	wanted := 0
	existing := 0

	for _, of := range deployments {
		wanted += of.Replicas
		existing += of.Machines
	}

	exist := fmt.Sprintf("%d exist", existing)
	if existing == 0 {
		exist = "none exists"
	}

	verb := "want"
	if len(deployments) == 1 {
		verb = "wants"
	}

	return fmt.Sprintf("%s %s %s, %s", count(len(deployments), kindMachineDeployment), verb, count(wanted, "Machine"), exist)
}
