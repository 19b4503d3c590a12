package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
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
// reconciled. The one to repair first comes first.
func (f *foundMachine) controlCauses(control *controlState, now time.Time) []*causeReport {
	var causes []*causeReport

	for i := range control.Controllers {
		if control.Controllers[i].State == stopped {
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
func (f *foundMachine) controllerCause(s *controllerState, now time.Time) *causeReport {
	container := sidecarContainer
	effect := "no Machine is created, deleted or checked"
	if s.Name == manager {
		container = manager
		effect = "no MachineDeployment or MachineSet is reconciled"
	}

	state := "has no holder"
	if s.Renewed != nil {
		state = "was renewed " + duration.HumanDuration(max(0, now.Sub(*s.Renewed))) + " ago"
	}

	return &causeReport{
		Reason:   kubevirt.TokenControllerDown,
		Message:  fmt.Sprintf("%s is not running: its lease %s %s; %s", s.Name, s.Lease, state, effect),
		Remedy:   fmt.Sprintf("repair container %s of Deployment %s: check its state, its log and the log of the previous container", container, manager),
		Since:    s.Renewed,
		Reported: s.Renewed,
		Retry: &retryHint{
			When:    "as soon as the controller is running again, for all Machines at once",
			Command: f.kubectl("logs deployment/" + manager + " --container=" + container + " --previous"),
		},
	}
}

func (f *foundMachine) classCause() *causeReport {
	return &causeReport{
		Reason: kubevirt.TokenClassNotFound,
		Message: fmt.Sprintf("MachineClass %s/%s, which the Machine refers to, does not exist; machine-controller-manager skips the Machine",
			f.namespace, statustext.Printable(f.machine.Spec.Class.Name)),
		Remedy: "create the MachineClass, or delete the Machine and correct its MachineDeployment",
		Retry:  &retryHint{When: "when the MachineClass is created; no command is needed"},
	}
}

// missingKeys returns the keys that the driver needs for a Machine but does not receive. User data
// is needed until the machine is created, and a kubeconfig from the command line replaces the one
// in the Secret.
func (f *foundMachine) missingKeys() []string {
	var missing []string

	if !f.overridden && len(f.secrets.data[apiv1alpha1.SecretKeyKubeconfig]) == 0 {
		missing = append(missing, apiv1alpha1.SecretKeyKubeconfig)
	}

	created := f.machine.Spec.ProviderID != "" || f.machine.DeletionTimestamp != nil
	if !created && len(f.secrets.data[apiv1alpha1.SecretKeyUserData]) == 0 {
		missing = append(missing, apiv1alpha1.SecretKeyUserData)
	}

	return missing
}

// secretCause returns the cause for Secrets that machine-controller-manager cannot read, if the
// driver needs their keys; otherwise nil.
func (f *foundMachine) secretCause() *causeReport {
	var texts []string

	for _, s := range f.secrets.states {
		switch s.State {
		case secretMissing:
			texts = append(texts, "Secret "+s.path()+" does not exist")
		case secretElsewhere:
			texts = append(texts, "Secret "+s.path()+" is not in the namespace of the MachineClass, the only one in which machine-controller-manager reads Secrets")
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
		Remedy:   fmt.Sprintf("check that container %s of Deployment %s is running with --namespace=%s, and read its log", sidecarContainer, manager, f.namespace),
		Since:    &created,
		Reported: &created,
		Retry: &retryHint{
			When:    "as soon as the controller is running",
			Command: f.kubectl("logs deployment/" + manager + " --container=" + sidecarContainer),
		},
	}
}

// The controllers that act on Machines, by the names of their leases in the control namespace
// (cmd/machine-controller-manager/app/controllermanager.go and pkg/util/provider/app/app.go of
// machine-controller-manager).
const (
	manager           = "machine-controller-manager"
	machineController = "machine-controller"
)

// liveness is the state of a controller according to its lease.
type liveness string

const (
	running liveness = "Running"
	stopped liveness = "Stopped"
	// unknown is the state of a controller without a lease (leader election is disabled), or whose
	// lease cannot be read.
	unknown liveness = "Unknown"
)

const (
	// confirmPeriod is how long a lease that seems to have expired is polled. Its holder renews it
	// every 2 s, so a renewal shows that the controller runs, even if the clocks of this machine
	// and of the holder differ.
	confirmPeriod = 6 * time.Second
	confirmEvery  = time.Second
	// defaultLease is the duration of a lease that does not specify one.
	defaultLease = 15 * time.Second
)

// controllerState is the state of a controller according to its lease.
type controllerState struct {
	Name  string   `json:"name"`
	Lease string   `json:"lease"`
	State liveness `json:"state"`
	// Holder is the identity in the lease.
	Holder string `json:"holder,omitempty"`
	// Renewed is when the lease was last renewed.
	Renewed *time.Time `json:"renewed,omitempty"`
	// Note is why the state is unknown.
	Note string `json:"note,omitempty"`
}

// controllers reads the leases of both controllers in the namespace.
func (c *controlCluster) controllers(ctx context.Context) []controllerState {
	return []controllerState{c.controller(ctx, manager), c.controller(ctx, machineController)}
}

func (c *controlCluster) controller(ctx context.Context, name string) controllerState {
	s := controllerState{Name: name, Lease: c.Namespace + "/" + name, State: unknown}

	lease, err := c.lease(ctx, name)

	switch {
	case apierrors.IsNotFound(err):
		s.Note = "no lease found; a controller with --leader-elect=false has none"

		return s
	case err != nil:
		s.Note = statustext.Printable(fmt.Sprintf("get Lease %s: %s", s.Lease, err))

		return s
	}

	s.State = running

	if expired(lease, time.Now()) {
		lease, s.State = c.awaitRenewal(ctx, lease)
	}

	s.Holder = statustext.Printable(ptr.Deref(lease.Spec.HolderIdentity, ""))

	if lease.Spec.RenewTime != nil {
		s.Renewed = &lease.Spec.RenewTime.Time
	}

	return s
}

func (c *controlCluster) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return c.Kubernetes.CoordinationV1().Leases(c.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// expired reports whether the holder of a lease seems to have stopped. A renewal far in the future
// counts too: this machine's clock may be behind.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	if lease.Spec.RenewTime == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return true
	}

	valid := defaultLease
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		valid = time.Duration(seconds) * time.Second
	}

	return now.Sub(lease.Spec.RenewTime.Time).Abs() > valid
}

// awaitRenewal polls a lease that seems to have expired. A renewal shows that its holder is
// running.
func (c *controlCluster) awaitRenewal(ctx context.Context, expired *coordinationv1.Lease) (*coordinationv1.Lease, liveness) {
	renewed := expired

	err := wait.PollUntilContextTimeout(ctx, confirmEvery, confirmPeriod, false, func(ctx context.Context) (bool, error) {
		now, err := c.lease(ctx, expired.Name)
		if err != nil || now.Spec.RenewTime == nil || now.Spec.RenewTime.Equal(expired.Spec.RenewTime) {
			return false, nil //nolint:nilerr // The next request may succeed.
		}

		renewed = now

		return ptr.Deref(now.Spec.HolderIdentity, "") != "", nil
	})
	if err != nil {
		return expired, stopped
	}

	return renewed, running
}
