package providercluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// ExplainMachine implements spi.Explainer. It reads what InitializeMachine reads, however young the machine is, and judges it in the
// same way. Somebody who waits for the answer wants to see more than that: what the judgement does not need is read after it.
func (p *Provider) ExplainMachine(ctx context.Context, in *spi.ExplainMachineInput) (*spi.Explanation, error) {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	vm, err := s.getVirtualMachine(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	ours, err := s.owns(subjectOfExplanation(in), vm)

	switch {
	case err != nil:
		return nil, err
	case vm != nil && !ours:
		return nil, foreign("VirtualMachine", s.path(in.Name))
	}

	instance, err := s.getInstance(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	var explanation *spi.Explanation

	if vm == nil {
		explanation = p.explainAbsence(ctx, s, in, instance)
	} else {
		explanation = p.explain(ctx, s, in, &sighting{Evidence: diagnose.Evidence{VirtualMachine: vm, Instance: instance}})
	}

	explanation.Server, explanation.Namespace = s.clients.Server, s.clients.Namespace
	explanation.Unread = s.unread

	return explanation, nil
}

// explainAbsence asks whether the machine could be created now. Of an instance without a VirtualMachine, DeleteMachine takes care.
func (p *Provider) explainAbsence(
	ctx context.Context, s *session, in *spi.ExplainMachineInput, instance *kubevirtv1.VirtualMachineInstance,
) *spi.Explanation {
	explanation := &spi.Explanation{Stage: spi.StageAbsent, Waiting: "there is no VirtualMachine " + s.path(in.Name)}

	if instance != nil && render.Owns(in.Identity, instance.Labels) {
		explanation.Objects = append(explanation.Objects, instanceSeen(instance))
	}

	if in.Create == nil {
		return explanation
	}

	if err := s.rehearse(ctx, in.Create); err != nil {
		explanation.Cause = &spi.Cause{Err: spi.AsError(err)}
	} else {
		explanation.Waiting += "; the provider cluster would accept it now"
	}

	return explanation
}

// rehearse asks the provider cluster for everything that CreateMachine asks for, and has it judge, but not carry out, what it is asked.
func (s *session) rehearse(ctx context.Context, in *spi.CreateMachineInput) error {
	s = &session{clients: s.clients, dryRun: []string{metav1.DryRunAll}}

	vm, err := render.VirtualMachine(in, s.clients.Namespace)
	if err != nil {
		return spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	if in.Spec.UsesGoldenImage() {
		if err := s.rehearseImage(ctx, in); err != nil {
			return imageInUsersTerms(err)
		}
	}

	for _, secret := range render.Secrets(in, s.clients.Namespace) {
		if err := s.ensureSecret(ctx, secret, in.Identity()); err != nil {
			return err
		}
	}

	_, err = s.ensureVirtualMachine(ctx, vm, in.Identity())

	return inUsersTerms(err, in, vm)
}

func (s *session) rehearseImage(ctx context.Context, in *spi.CreateMachineInput) error {
	image, err := in.Image().DataVolume(s.clients.Namespace)
	if err != nil {
		return spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	err = s.request(ctx, "create golden image "+s.path(image.Name), func(ctx context.Context) error {
		_, err := s.dataVolumes().Create(ctx, image, strictly(s.dryRun...))

		return err
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}

	return err
}

// explain judges a machine of ours.
func (p *Provider) explain(ctx context.Context, s *session, in *spi.ExplainMachineInput, seen *sighting) *spi.Explanation {
	observe := &spi.ObserveMachineInput{Name: in.Name, Identity: in.Identity}
	seen.Evidence = withBoth(s.evidence(ctx, observe, seen).Evidence, seen)
	now := p.options.Clock.Now()

	explanation := &spi.Explanation{Signs: seen.Signs(now)}

	switch cause := seen.Cause(now, p.gracePeriods()); {
	case seen.VirtualMachine.DeletionTimestamp != nil:
		explanation.Stage = spi.StageDeleting
		explanation.Cause, explanation.Waiting = p.explainDeletion(ctx, s, seen, now)
	case p.initialized(seen.Instance):
		explanation.Stage = spi.StageScheduled
		explanation.Waiting = "the machine has its place on provider node " + nodeOf(seen.Instance)
		explanation.Cause = cause
	default:
		explanation.Stage, explanation.Waiting = spi.StageCreating, waitsFor(seen)
		explanation.Cause = cause
	}

	s.explainPlacement(ctx, explanation.Cause, diagnose.PlaceOf(seen.VirtualMachine))
	s.readOn(ctx, observe, seen)
	explanation.Objects = objectsSeen(seen)

	return explanation
}

// withBoth returns evidence with the two objects from which it was gathered.
func withBoth(e diagnose.Evidence, seen *sighting) diagnose.Evidence {
	e.VirtualMachine, e.Instance = seen.VirtualMachine, seen.Instance

	return e
}

// waitsFor says what is missing until the machine has its place.
func waitsFor(seen *sighting) string {
	if now := stage(seen); now.Message != "" {
		return now.Message
	}

	if seen.VirtualMachine.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusUnschedulable {
		return "the scheduler looks for a provider node"
	}

	return fmt.Sprintf("the VirtualMachine is %s; if it stays so, check that virt-controller runs", seen.VirtualMachine.Status.PrintableStatus)
}

// explainDeletion returns the blocker of a deletion: as the cause if the deletion has taken longer
// than DeleteMachine waits, and before that as the state that the machine waits for.
func (p *Provider) explainDeletion(ctx context.Context, s *session, seen *sighting, now time.Time) (cause *spi.Cause, waiting string) {
	vm := seen.VirtualMachine

	cause = &spi.Cause{
		Err:   s.stillThere(ctx, vm.Name, now),
		Since: vm.DeletionTimestamp.Time, ReportableAt: vm.DeletionTimestamp.Add(p.deleteWait(gracePeriodOf(vm))),
	}

	if cause.ReportableAt.After(now) {
		return nil, cause.Err.Details()
	}

	return cause, ""
}

// readOn reads what the judgement did not need, to be shown.
func (s *session) readOn(ctx context.Context, in *spi.ObserveMachineInput, seen *sighting) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	if seen.Pods == nil && seen.Instance != nil {
		seen.Pods = s.podsOf(ctx, seen.Instance)
	}

	if seen.DataVolumes == nil {
		seen.DataVolumes = s.dataVolumesOf(ctx, in)
	}

	image := seen.VirtualMachine.Labels[v1alpha1.LabelGoldenImage]
	if seen.Images != nil || image == "" {
		return
	}

	if have, err := s.dataVolumes().Get(ctx, image, metav1.GetOptions{}); err == nil {
		seen.Images = []cdiv1beta1.DataVolume{*have}
	} else if !providerapi.Absent(err) {
		s.leaveOut("get DataVolume "+s.path(image), err)
	}
}
