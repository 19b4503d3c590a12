package main

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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	// controllerFinalizer is the finalizer that the machine controller adds to a Machine before anything else
	// (pkg/util/provider/machinecontroller/machine.go, reconcileClusterMachineKey).
	controllerFinalizer = "machine.sapcloud.io/machine-controller-manager"
	// finalizerTimeout is how long the machine controller may take to add the
	// finalizer. It is notified of a Machine at once.
	finalizerTimeout = 2 * time.Minute
	// sidecarContainer is the driver's container in the Deployment of
	// machine-controller-manager in the shipped manifests.
	sidecarContainer = "machine-controller-manager-provider-kubevirt"
)

// controlState is the state in the control cluster that a Machine depends on.
type controlState struct {
	Controllers []controllerState `json:"controllers"`
	// Secrets are the Secrets of the MachineClass.
	Secrets []secretState `json:"secrets"`
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
// reconciled. The first is to be repaired first.
func (f *foundMachine) controlCauses(control *controlState, now time.Time) []*causeReport {
	var causes []*causeReport

	for i := range control.Controllers {
		if c := &control.Controllers[i]; c.State == stopped {
			causes = append(causes, c.cause(f.namespace, now))
		}
	}

	if f.classMissing {
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

// cause returns the cause for a controller that is not running.
func (s *controllerState) cause(namespace string, now time.Time) *causeReport {
	container, effect := sidecarContainer, "no Machine is created, deleted or checked"
	if s.Name == manager {
		container, effect = manager, "no MachineDeployment or MachineSet is reconciled"
	}

	message := fmt.Sprintf("%s is not running: its lease %s has no holder", s.Name, s.Lease)
	if s.Renewed != nil {
		message = fmt.Sprintf("%s is not running: its lease %s was renewed %s ago", s.Name, s.Lease, duration.HumanDuration(max(0, now.Sub(*s.Renewed))))
	}

	return &causeReport{
		Reason: kubevirt.TokenControllerDown, Message: message + "; " + effect,
		Remedy: fmt.Sprintf("repair container %s of Deployment %s: check its state, its log and the log of the previous container", container, manager),
		Since:  s.Renewed, Reported: s.Renewed,
		Retry: &retryHint{When: "as soon as the controller is running again, for all Machines at once", Command: inNamespace(namespace,
			"logs deployment/"+manager+" --container="+container+" --previous")},
	}
}

func (f *foundMachine) classCause() *causeReport {
	name := statustext.Printable(f.machine.Spec.Class.Name)

	return &causeReport{
		Reason:  kubevirt.TokenClassNotFound,
		Message: fmt.Sprintf("MachineClass %s/%s, which the Machine refers to, does not exist; machine-controller-manager skips the Machine", f.namespace, name),
		Remedy:  "create the MachineClass, or delete the Machine and correct its MachineDeployment",
		Retry:   &retryHint{When: "when the MachineClass is created"},
	}
}

// needed returns the keys that the driver needs for a Machine. User data is needed until the
// machine is created, and a kubeconfig from the command line replaces the one in the Secret.
func (f *foundMachine) needed() []string {
	var keys []string

	if !f.overridden {
		keys = append(keys, apiv1alpha1.SecretKeyKubeconfig)
	}

	if f.machine != nil && f.machine.Spec.ProviderID == "" && f.machine.DeletionTimestamp == nil {
		keys = append(keys, apiv1alpha1.SecretKeyUserData)
	}

	return keys
}

// secretCause returns the cause for Secrets that machine-controller-manager cannot read, if the
// driver needs their keys; otherwise nil.
func (f *foundMachine) secretCause() *causeReport {
	invisible, missing := f.secrets.lacking(f.needed())
	if len(invisible) == 0 {
		return nil
	}

	texts := make([]string, 0, len(invisible))

	for i := range invisible {
		text := "Secret " + invisible[i].path() + " does not exist"
		if invisible[i].State == secretElsewhere {
			text = "Secret " + invisible[i].path() + " is not in the namespace of the MachineClass, the only one in which machine-controller-manager reads Secrets"
		}

		texts = append(texts, text)
	}

	failure := &spi.Error{
		Kind: spi.ErrInvalid, Reason: kubevirt.TokenSecretNotFound,
		Message: statustext.Printable("MachineClass " + f.class.Name + ": " + strings.Join(texts, "; ")),
		Remedy: statustext.Printable(fmt.Sprintf("create the Secret in namespace %s with the keys %s, or correct secretRef and credentialsSecretRef of the MachineClass",
			f.namespace, strings.Join(missing, " and "))),
	}

	report := reportOf(&spi.Cause{Err: failure})
	report.Retry = f.retryOf(failure, "")

	return report
}

// notReconciled reports whether the machine controller should have
// started to reconcile the Machine, and has not.
func (f *foundMachine) notReconciled(now time.Time) bool {
	m := f.machine

	return m != nil && m.DeletionTimestamp == nil && now.Sub(m.CreationTimestamp.Time) > finalizerTimeout && lastUpdate(m) == nil &&
		!slices.Contains(m.Finalizers, controllerFinalizer)
}

func (f *foundMachine) notReconciledCause(control *controlState, now time.Time) *causeReport {
	created := f.machine.CreationTimestamp.Time

	lease := "and no lease shows that it is running"
	if slices.ContainsFunc(control.Controllers, func(c controllerState) bool { return c.Name == machineController && c.State == running }) {
		lease = "although its lease shows that it is running"
	}

	return &causeReport{
		Reason: kubevirt.TokenNotReconciled,
		Message: fmt.Sprintf("the machine controller has not reconciled the Machine since its creation %s ago: there is no status and no finalizer, %s",
			duration.HumanDuration(now.Sub(created)), lease),
		Remedy: fmt.Sprintf("check that container %s of Deployment %s is running with --namespace=%s, and read its log", sidecarContainer, manager, f.namespace),
		Since:  &created, Reported: &created,
		Retry: &retryHint{When: "as soon as the controller is running", Command: inNamespace(f.namespace, "logs deployment/"+manager+" --container="+sidecarContainer)},
	}
}
