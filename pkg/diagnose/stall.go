// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// VolumeStalled is the reason of a volume on which CDI has reported no progress for minutes.
const VolumeStalled = "VolumeStalled"

// steps are the phases of a DataVolume in which CDI or the storage is at work.
var steps = []cdiv1beta1.DataVolumePhase{
	cdiv1beta1.ImportScheduled, cdiv1beta1.ImportInProgress, cdiv1beta1.CloneScheduled, cdiv1beta1.CloneInProgress,
	cdiv1beta1.CSICloneInProgress, cdiv1beta1.SnapshotForSmartCloneInProgress, cdiv1beta1.CloneFromSnapshotSourceInProgress,
	cdiv1beta1.SmartClonePVCInProgress, cdiv1beta1.ExpansionInProgress, cdiv1beta1.NamespaceTransferInProgress,
	cdiv1beta1.PrepClaimInProgress, cdiv1beta1.RebindInProgress,
}

// ofStall returns the sign of a volume in one of the steps, since its last progress. A slow step does not
// differ from one that has stopped, such as a clone by the storage, so that it is no failure.
func (e *Evidence) ofStall(dv *cdiv1beta1.DataVolume, kind string) []sign {
	since, known := lastProgress(dv)
	if !known || dv.DeletionTimestamp != nil || !slices.Contains(steps, dv.Status.Phase) || waitsForSource(dv) {
		return nil
	}

	return []sign{{
		from:    volumeStall,
		silence: true,
		subject: kind + " " + dv.Name,
		since:   since,
		command: e.commandFor(dv),
		message: fmt.Sprintf("is %s, and CDI has reported no progress since %s", dv.Status.Phase, since.UTC().Format(time.RFC3339)),
		object:  named("DataVolume", dv),
		kind:    statusPhase,
		status:  string(dv.Status.Phase),
	}}
}

// lastProgress returns when a DataVolume was last changed: API servers record it for each client, and CDI
// writes each percent. Without that record, the time is known only if nothing was copied yet.
func lastProgress(dv *cdiv1beta1.DataVolume) (last time.Time, known bool) {
	last = dv.CreationTimestamp.Time

	for i := range dv.Status.Conditions {
		c := &dv.Status.Conditions[i]
		last = latest(last, latest(c.LastTransitionTime.Time, c.LastHeartbeatTime.Time))
	}

	for i := range dv.ManagedFields {
		if at := dv.ManagedFields[i].Time; at != nil {
			last = latest(last, at.Time)
			known = true
		}
	}

	return last, known || hasNoProgress(dv)
}

// hasNoProgress reports whether nothing was copied yet, as far as CDI reports it.
func hasNoProgress(dv *cdiv1beta1.DataVolume) bool {
	return slices.Contains([]cdiv1beta1.DataVolumeProgress{"", "N/A", "0.00%"}, dv.Status.Progress)
}

func waitsForSource(dv *cdiv1beta1.DataVolume) bool {
	return slices.ContainsFunc(dv.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool { return c.Message == sizeMissing })
}

// commandFor returns the command that shows the objects of the present step. A clone has its temporary
// claim and its pods in the namespace of the source.
func (e *Evidence) commandFor(dv *cdiv1beta1.DataVolume) string {
	namespace, _, cloned := strings.Cut(SourceOf(dv), "/")
	if claim := string(e.claimOf(dv)); cloned && claim != "" {
		return commandOf("kubectl --namespace=%s get persistentvolumeclaims,pods --selector=cdi.kubevirt.io/OwnedByUID=%s", namespace, claim)
	}

	return commandOf("kubectl --namespace=%s describe datavolume %s", dv.Namespace, dv.Name)
}

// commandOf returns a command with names from the provider cluster, and with a placeholder for each that is
// no name: an operator executes the command.
func commandOf(format string, names ...string) string {
	args := make([]any, 0, len(names))

	for _, name := range names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			name = "NAME"
		}

		args = append(args, name)
	}

	return fmt.Sprintf(format, args...)
}

// claimOf returns the UID of a DataVolume's claim, which has the same name; empty if it was not read.
func (e *Evidence) claimOf(dv *cdiv1beta1.DataVolume) types.UID {
	var found types.UID

	for i := range e.Claims {
		if claim := &e.Claims[i]; claim.Name == dv.Name && claim.Namespace == dv.Namespace {
			found = cmp.Or(found, claim.UID)
		}
	}

	return found
}
