// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// readVolume adds the evidence of a DataVolume: its claim of the same name, the events of both and of the
// claim that CDI fills, of which CDI copies only some, and, if one of CDI's pods does not start or fails, what
// only that pod or that claim tells.
func (r *reader) readVolume(ctx context.Context, dv *cdiv1beta1.DataVolume, related *diagnose.Evidence) {
	related.Events = r.eventsOf(ctx, fields.Set{"involvedObject.name": dv.Name})

	claim := r.claimOf(ctx, dv, related.Events)
	if claim == nil {
		return
	}

	related.Claims = append(related.Claims, *claim)
	filled := filledClaim(dv, claim)

	if filled != claim.Name {
		related.Events = append(related.Events, r.warningsOf(ctx, filled)...)
	}

	if diagnose.IsImporterWaiting(dv) {
		related.Events = append(related.Events, r.warningsOf(ctx, diagnose.ImporterOf(filled))...)
	}

	if diagnose.IsCopyWaiting(dv, claim) {
		related.Events = append(related.Events, r.copyEvents(ctx, claim, filled)...)
	}

	if filled != claim.Name && diagnose.HasFailedImport(related.Events) {
		related.Claims = append(related.Claims, r.existingClaim(ctx, filled)...)
	}
}

// copyEvents returns the events of the two pods that copy into the filled claim, whose UID is in the name of
// one of them.
func (r *reader) copyEvents(ctx context.Context, claim *corev1.PersistentVolumeClaim, filled string) []corev1.Event {
	if filled != claim.Name {
		found := r.existingClaim(ctx, filled)
		if len(found) == 0 {
			return nil
		}

		claim = &found[0]
	}

	receiver, sender := diagnose.CopyPodsOf(claim)

	return append(
		r.eventsOf(ctx, fields.Set{"involvedObject.name": receiver}),
		r.eventsOf(ctx, fields.Set{"involvedObject.name": sender})...,
	)
}

func (r *reader) warningsOf(ctx context.Context, name string) []corev1.Event {
	return r.eventsOf(ctx, fields.Set{"involvedObject.name": name, "type": corev1.EventTypeWarning})
}

// claimOf returns a DataVolume's claim, or nil if there is none. If the claim cannot be read, as with the
// Role of an older release, its UID is in its events, of which a busy kube-controller-manager drops some.
func (r *reader) claimOf(ctx context.Context, dv *cdiv1beta1.DataVolume, events []corev1.Event) *corev1.PersistentVolumeClaim {
	claim, err := r.clients.WithoutRetry().Claims().Get(ctx, dv.Name)
	if err == nil {
		return claim
	}

	r.addUnread(err)

	for i := range events {
		if object := &events[i].InvolvedObject; object.Kind == "PersistentVolumeClaim" && object.UID != "" {
			found := &corev1.PersistentVolumeClaim{}
			found.Name = dv.Name
			found.Namespace = dv.Namespace
			found.UID = object.UID

			return found
		}
	}

	return nil
}

// existingClaim returns a claim, if it exists and can be read.
func (r *reader) existingClaim(ctx context.Context, name string) []corev1.PersistentVolumeClaim {
	claim, err := r.clients.WithoutRetry().Claims().Get(ctx, name)

	switch {
	case err != nil:
		r.addUnread(err)

		return nil
	case claim == nil:
		return nil
	default:
		return []corev1.PersistentVolumeClaim{*claim}
	}
}

// annotationPopulator is CDI's annotation on claims. It is false for storage without a CSI driver, whose
// claims CDI fills themselves.
const annotationPopulator = "cdi.kubevirt.io/storage.usePopulator"

// filledClaim returns the name of the claim whose volume CDI fills and then rebinds to the claim of the
// DataVolume (pkg/controller/clone/planner.go, pkg/controller/populators/util.go).
func filledClaim(dv *cdiv1beta1.DataVolume, claim *corev1.PersistentVolumeClaim) string {
	switch {
	case claim.Annotations[annotationPopulator] == "false":
		return claim.Name
	case diagnose.SourceOf(dv) != "":
		return "tmp-pvc-" + string(claim.UID)
	default:
		return "prime-" + string(claim.UID)
	}
}
