// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/util/duration"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
)

const (
	// controllerFinalizer is the finalizer that the machine controller adds to a Machine before
	// anything else (pkg/util/provider/machinecontroller/machine.go, reconcileClusterMachineKey).
	controllerFinalizer = "machine.sapcloud.io/machine-controller-manager"
	// finalizerTimeout is how long the machine controller may take to add the
	// finalizer. It is notified of a Machine at once.
	finalizerTimeout = 2 * time.Minute
	// sidecarContainer is the driver's container in the Deployment of
	// machine-controller-manager in the shipped manifests.
	sidecarContainer = "machine-controller-manager-provider-kubevirt"
)

// ControlState is the state in the control cluster that a Machine depends on.
type ControlState struct {
	Controllers []controlcluster.Controller `json:"controllers"`
	// Secrets are the Secrets of the MachineClass.
	Secrets []controlcluster.Secret `json:"secrets"`
	// LastUpdate is when a controller last wrote to the Machine; nil if none ever did.
	LastUpdate *time.Time `json:"lastSign,omitempty"`
}

// lastUpdate returns the last time at which the controllers wrote to a Machine.
func lastUpdate(m *v1alpha1.Machine) *time.Time {
	last := m.Status.LastOperation.LastUpdateTime.Time

	if phase := m.Status.CurrentStatus.LastUpdateTime.Time; phase.After(last) {
		last = phase
	}

	return timeOrNil(last)
}

// controlCauses returns the causes in the control cluster that prevent a Machine from being
// reconciled. The one to repair first comes first.
func (f *foundMachine) controlCauses(control *ControlState, now time.Time) []*Cause {
	var causes []*Cause

	for i := range control.Controllers {
		if control.Controllers[i].State == controlcluster.Stopped {
			causes = append(causes, f.controllerCause(&control.Controllers[i], now))
		}
	}

	if f.class == nil {
		causes = append(causes, f.classCause())
	}

	if cause := f.secretCause(); cause != nil {
		causes = append(causes, cause)
	}

	if len(causes) == 0 && f.notReconciled(now) {
		causes = append(causes, f.notReconciledCause(control, now))
	}

	return causes
}

// controllerCause returns the cause for a controller that is not running.
func (f *foundMachine) controllerCause(s *controlcluster.Controller, now time.Time) *Cause {
	container := sidecarContainer
	effect := "no Machine is created, deleted or checked"
	if s.Name == controlcluster.Manager {
		container = controlcluster.Manager
		effect = "no MachineDeployment or MachineSet is reconciled"
	}

	state := "has no holder"
	if s.Renewed != nil {
		state = "was renewed " + duration.HumanDuration(max(0, now.Sub(*s.Renewed))) + " ago"
	}

	return &Cause{
		Reason:   kubevirt.TokenControllerDown,
		Message:  fmt.Sprintf("%s is not running: its lease %s %s; %s", s.Name, s.Lease, state, effect),
		Remedy:   fmt.Sprintf("repair container %s of Deployment %s: check its state, its log and the log of the previous container", container, controlcluster.Manager),
		Since:    s.Renewed,
		Reported: s.Renewed,
		Retry: &Retry{
			When:    "as soon as the controller is running again, for all Machines at once",
			Command: f.kubectl("logs deployment/" + controlcluster.Manager + " --container=" + container + " --previous"),
		},
	}
}

func (f *foundMachine) classCause() *Cause {
	return &Cause{
		Reason: kubevirt.TokenClassNotFound,
		Message: fmt.Sprintf("MachineClass %s/%s, which the Machine refers to, does not exist; machine-controller-manager skips the Machine",
			f.namespace, f.machine.Spec.Class.Name),
		Remedy: "create the MachineClass, or delete the Machine and correct its MachineDeployment",
		Retry:  &Retry{When: "when the MachineClass is created; no command is needed"},
	}
}

// missingKeys returns the keys that the driver needs for a Machine but does not receive. User data
// is needed until the machine is created, and a kubeconfig from the command line replaces the one
// in the Secret.
func (f *foundMachine) missingKeys() []string {
	var missing []string

	if !f.overridden && len(f.secrets.Data[apiv1alpha1.SecretKeyKubeconfig]) == 0 {
		missing = append(missing, apiv1alpha1.SecretKeyKubeconfig)
	}

	created := f.machine.Spec.ProviderID != "" || f.machine.DeletionTimestamp != nil
	if !created && len(f.secrets.Data[apiv1alpha1.SecretKeyUserData]) == 0 {
		missing = append(missing, apiv1alpha1.SecretKeyUserData)
	}

	return missing
}

// secretCause returns the cause for Secrets that machine-controller-manager cannot read, if the
// driver needs their keys; otherwise nil.
func (f *foundMachine) secretCause() *Cause {
	var texts []string

	for _, s := range f.secrets.States {
		switch s.State {
		case controlcluster.SecretMissing:
			texts = append(texts, "Secret "+s.Path()+" does not exist")
		case controlcluster.SecretElsewhere:
			texts = append(texts, "Secret "+s.Path()+" is not in the namespace of the MachineClass, the only one in which machine-controller-manager reads Secrets")
		default:
		}
	}

	missing := f.missingKeys()
	if len(texts) == 0 || len(missing) == 0 {
		return nil
	}

	return f.report(&spi.Cause{Err: &spi.Error{
		Kind:    spi.ErrInvalid,
		Reason:  kubevirt.TokenSecretNotFound,
		Message: "MachineClass " + f.class.Name + ": " + strings.Join(texts, "; "),
		Remedy: fmt.Sprintf("create the Secret in namespace %s with the keys %s, or correct secretRef and credentialsSecretRef of the MachineClass",
			f.namespace, strings.Join(missing, " and ")),
	}}, "")
}

// notReconciled reports whether the machine controller should have started to reconcile the
// Machine, but has not.
func (f *foundMachine) notReconciled(now time.Time) bool {
	m := f.machine

	return m.DeletionTimestamp == nil && now.Sub(m.CreationTimestamp.Time) > finalizerTimeout && lastUpdate(m) == nil &&
		!slices.Contains(m.Finalizers, controllerFinalizer)
}

func (f *foundMachine) notReconciledCause(control *ControlState, now time.Time) *Cause {
	created := f.machine.CreationTimestamp.Time

	lease := "and no lease shows that it is running"
	if slices.ContainsFunc(control.Controllers, func(c controlcluster.Controller) bool {
		return c.Name == controlcluster.MachineController && c.State == controlcluster.Running
	}) {
		lease = "although its lease shows that it is running"
	}

	return &Cause{
		Reason: kubevirt.TokenNotReconciled,
		Message: fmt.Sprintf("the machine controller has not reconciled the Machine since its creation %s ago: there is no status and no finalizer, %s",
			duration.HumanDuration(now.Sub(created)), lease),
		Remedy:   fmt.Sprintf("check that container %s of Deployment %s is running with --namespace=%s, and read its log", sidecarContainer, controlcluster.Manager, f.namespace),
		Since:    &created,
		Reported: &created,
		Retry: &Retry{
			When:    "as soon as the controller is running",
			Command: f.kubectl("logs deployment/" + controlcluster.Manager + " --container=" + sidecarContainer),
		},
	}
}
