// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Explainer implements spi.Explainer and spi.VolumesExplainer.
type Explainer struct {
	clients *providerapi.Cache
	clock   clock.PassiveClock
	periods diagnose.GracePeriods
}

var (
	_ spi.Explainer        = (*Explainer)(nil)
	_ spi.VolumesExplainer = (*Explainer)(nil)
)

// NewExplainer returns an Explainer. unschedulableGrace is that of Options.
func NewExplainer(clients *providerapi.Cache, c clock.PassiveClock, unschedulableGrace time.Duration) *Explainer {
	return &Explainer{clients: clients, clock: c, periods: diagnose.GracePeriodsOf(unschedulableGrace)}
}

// ExplainMachine implements spi.Explainer. It reads the same evidence as InitializeMachine, even
// for a new machine, and diagnoses it in the same way. Objects that are only of interest to the
// operator are read afterwards.
func (e *Explainer) ExplainMachine(ctx context.Context, in *spi.ExplainMachineInput) (*spi.Explanation, error) {
	c, err := e.clients.For(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	vm, err := c.VirtualMachines().Get(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	ours, err := owns(c, newTarget(in.Name, in.Identity, in.Recorded, in.HasProviderID), vm)

	switch {
	case err != nil:
		return nil, err
	case vm != nil && !ours:
		return nil, foreign("VirtualMachine", c.Path(in.Name))
	}

	instance, err := c.Instances().Get(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	var (
		explanation *spi.Explanation
		r           = &reader{clients: c}
	)

	if vm == nil {
		explanation = explainAbsence(ctx, c, in, instance)
	} else {
		explanation = e.explain(ctx, r, in, &evidence{Evidence: diagnose.Evidence{VirtualMachine: vm, Instance: instance}})
	}

	explanation.Server = c.Server
	explanation.Namespace = c.Namespace
	explanation.Unread = r.unread

	return explanation, nil
}

// explainAbsence checks whether the machine could be created now. DeleteMachine removes an instance
// without a VirtualMachine.
func explainAbsence(
	ctx context.Context, c *providerapi.Clients, in *spi.ExplainMachineInput, instance *kubevirtv1.VirtualMachineInstance,
) *spi.Explanation {
	explanation := &spi.Explanation{Stage: spi.StageAbsent, Waiting: "there is no VirtualMachine " + c.Path(in.Name)}

	if instance != nil && render.Owns(in.Identity, instance.Labels) {
		explanation.Objects = append(explanation.Objects, instanceObject(instance))
	}

	if in.Create == nil {
		return explanation
	}

	if err := dryRunCreation(ctx, c, in.Create); err != nil {
		explanation.Cause = &spi.Cause{Err: spi.AsError(err)}
	} else {
		explanation.Waiting += "; the provider cluster would accept it now"
	}

	return explanation
}

// dryRunCreation sends the requests of CreateMachine as dry runs.
func dryRunCreation(ctx context.Context, c *providerapi.Clients, in *spi.CreateMachineInput) error {
	c = c.DryRun()

	vm, err := render.VirtualMachine(in, c.Namespace)
	if err != nil {
		return spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	if in.Spec.UsesGoldenImage() {
		if err := dryRunImage(ctx, c, in); err != nil {
			return imageInProviderSpecTerms(err)
		}
	}

	for _, secret := range render.Secrets(in, c.Namespace) {
		if err := ensureSecret(ctx, c, secret, in.Identity()); err != nil {
			return err
		}
	}

	_, err = ensureVirtualMachine(ctx, c, vm, in.Identity())

	return inProviderSpecTerms(err, in, vm)
}

func dryRunImage(ctx context.Context, c *providerapi.Clients, in *spi.CreateMachineInput) error {
	image, err := in.Image().DataVolume(c.Namespace)
	if err != nil {
		return spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	_, err = c.DataVolumes(c.Namespace, "golden image").Create(ctx, image)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}

	return err
}

// explain diagnoses a machine of this driver.
func (e *Explainer) explain(ctx context.Context, r *reader, in *spi.ExplainMachineInput, seen *evidence) *spi.Explanation {
	observe := &spi.ObserveMachineInput{Name: in.Name, Identity: in.Identity}
	seen.setRelated(r.readRelated(ctx, observe, seen))

	if !in.Deleting { // machine-controller-manager drains its Node: a live migration no longer matters.
		seen.Migrations = r.migrationsOf(ctx, seen.Instance, seen.Pods)
	}

	if in.Console && !in.Deleting && isOnNode(seen.Instance) {
		r.readGuest(ctx, &seen.Evidence, in.ConsoleLines)
	}

	now := e.clock.Now()
	seen.WithStalls = true

	explanation := &spi.Explanation{Signs: seen.Signs(now), GuestRuns: diagnose.GuestRuns(seen.Instance)}

	switch cause := seen.Cause(now, e.periods); {
	case seen.VirtualMachine.DeletionTimestamp != nil:
		explanation.Stage = spi.StageDeleting
		explanation.Cause, explanation.Waiting = e.explainDeletion(ctx, r, seen, now)
	case seen.Instance != nil && wasScheduled(seen.Instance):
		explanation.Stage = spi.StageScheduled
		explanation.Waiting = whereabouts(seen)
		explanation.Cause = cause
	default:
		explanation.Stage = spi.StageCreating
		explanation.Waiting = waitingFor(seen)
		explanation.Cause = cause
	}

	r.explainPlacement(ctx, explanation.Cause, diagnose.TopologyOf(seen.VirtualMachine))
	r.readMore(ctx, observe, seen)
	explanation.Objects = objectsOf(seen)

	return explanation
}

// whereabouts describes where a scheduled machine is, whether kubectl drain waits for it, and whether its guest
// prints anything.
func whereabouts(seen *evidence) string {
	text := "the machine is scheduled to provider node " + nodeOf(seen.Instance)
	if from := seen.Instance.Status.EvacuationNodeName; from != "" {
		text += ", and marked for its evacuation from provider node " + from
	}

	if seen.Console.Silent() {
		text += "; its guest has printed nothing on its serial console: it does not boot, or its kernel has no parameter console=ttyS0"
	}

	return text
}

// waitingFor describes what a machine that is not scheduled yet is waiting for.
func waitingFor(seen *evidence) string {
	if now := stage(seen); now.Message != "" {
		return now.Message
	}

	if seen.VirtualMachine.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusUnschedulable {
		return "the scheduler has not found a provider node yet"
	}

	return fmt.Sprintf("the VirtualMachine is %s; if this does not change, check that virt-controller runs", seen.VirtualMachine.Status.PrintableStatus)
}

// explainDeletion returns the blocker of a deletion: as the cause if the deletion has taken
// longer than DeleteMachine waits, and before that as the state that the machine waits for.
func (e *Explainer) explainDeletion(ctx context.Context, r *reader, seen *evidence, now time.Time) (cause *spi.Cause, waiting string) {
	vm := seen.VirtualMachine

	cause = &spi.Cause{
		Err:          r.stillDeleting(ctx, vm.Name, now),
		Since:        vm.DeletionTimestamp.Time,
		ReportableAt: vm.DeletionTimestamp.Add(deleteWait(gracePeriodOf(vm), maxDeleteWait)),
	}

	if cause.ReportableAt.After(now) {
		return nil, cause.Err.Details()
	}

	return cause, ""
}

// readMore reads the objects that the diagnosis did not need, for the operator.
func (r *reader) readMore(ctx context.Context, in *spi.ObserveMachineInput, seen *evidence) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	if seen.Pods == nil && seen.Instance != nil {
		seen.Pods = r.podsOf(ctx, seen.Instance)
	}

	if seen.DataVolumes == nil {
		seen.DataVolumes = r.dataVolumesOf(ctx, in)
	}

	image := seen.VirtualMachine.Labels[v1alpha1.LabelGoldenImage]
	if seen.Images != nil || image == "" {
		return
	}

	if have, err := r.clients.WithoutRetry().DataVolumes(r.clients.Namespace, "DataVolume").Get(ctx, image); err != nil {
		r.addUnread(err)
	} else if have != nil {
		seen.Images = []cdiv1beta1.DataVolume{*have}
	}
}
