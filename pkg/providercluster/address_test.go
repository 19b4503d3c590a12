// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// theirs are the tags of another shoot.
var ours, theirs = spi.Identity{Cluster: "shoot--x", Role: "node"}, spi.Identity{Cluster: "shoot--y", Role: "node"}

// foundVM is a VirtualMachine of the machine's name.
func foundVM(uid types.UID, tags spi.Identity, machineLabel string) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Name:   "m",
		UID:    uid,
		Labels: map[string]string{v1alpha1.TagCluster: tags.Cluster, v1alpha1.TagRole: tags.Role, render.LabelMachine: machineLabel},
	}}
}

// recordedIn is a record of VirtualMachine "u" in a namespace.
func recordedIn(namespace string) *spi.RecordedAddress {
	return &spi.RecordedAddress{Address: spi.Address{
		Server:    "s",
		Namespace: namespace,
		Cluster:   ours.Cluster,
		Role:      ours.Role,
		UID:       "u",
	}}
}

// TestOwns has every combination of a Machine's record and the VirtualMachine of its name. The
// current namespace is "here".
func TestOwns(t *testing.T) {
	t.Parallel()

	here := recordedIn("here")
	there := recordedIn("there")
	broken := &spi.RecordedAddress{Fault: "fault"}
	abandoned := &spi.RecordedAddress{Abandoned: true}
	tagged := recordedIn("here")
	tagged.Cluster = "shoot--old"

	const yes, no = true, false

	tests := map[string]struct {
		reason   string
		recorded *spi.RecordedAddress
		unmade   bool
		found    *kubevirtv1.VirtualMachine
		want     bool
		// refused is a part of the error.
		refused string
	}{
		"NoRecordOurs":    {reason: "as without records", found: foundVM("u", ours, "m"), want: yes},
		"NoRecordAbsent":  {reason: "as without records", want: no},
		"NoRecordForeign": {reason: "another's VirtualMachine is none of ours", found: foundVM("v", theirs, ""), want: no},
		"NoRecordOtherMachine": {
			reason: "another Machine's label is no claim",
			found:  foundVM("v", theirs, "another"),
			want:   no,
		},
		"NoRecordEditedTags": {
			reason:  "the label says that it is ours: the tags were edited",
			found:   foundVM("v", theirs, "m"),
			refused: "restore the tags",
		},
		"NeverMadeSameLabel": {
			reason: "the Machine never had a VirtualMachine, so that this one is another shoot's",
			unmade: true,
			found:  foundVM("v", theirs, "m"),
			want:   no,
		},
		"HereOurs":       {reason: "nothing has changed", recorded: here, found: foundVM("u", ours, "m"), want: yes},
		"HereReplaced":   {reason: "restored from a backup, in its place", recorded: here, found: foundVM("v", ours, "m"), want: yes},
		"HereAbsent":     {reason: "it is gone", recorded: here, want: no},
		"HereForeign":    {reason: "it is gone, and its name was taken", recorded: here, found: foundVM("v", theirs, ""), want: no},
		"HereLostTags":   {reason: "the VirtualMachine was edited", recorded: here, found: foundVM("u", theirs, ""), refused: "restore the tags"},
		"HereNamesake":   {reason: "it is gone, and another shoot has a machine of its name", recorded: here, found: foundVM("v", theirs, "m"), want: no},
		"ThereMoved":     {reason: "a move that worked", recorded: there, found: foundVM("u", ours, "m"), want: yes},
		"ThereAbsent":    {reason: "it is not visible, and may run", recorded: there, refused: "restore the namespace of the kubeconfig, or abandon"},
		"ThereOther":     {reason: "a copy is not the machine", recorded: there, found: foundVM("v", ours, "m"), refused: "does not belong to the Machine"},
		"ThereForeign":   {reason: "the machine is elsewhere", recorded: there, found: foundVM("v", theirs, ""), refused: "does not belong to the Machine"},
		"TagsAbsent":     {reason: "the selector has changed", recorded: tagged, refused: "restore the tags of the MachineClass, or abandon"},
		"TagsEdited":     {reason: "it exists, with the previous tags", recorded: tagged, found: foundVM("u", theirs, "m"), refused: "has tags other than"},
		"TagsRelabelled": {reason: "the VirtualMachine was given the new tags", recorded: tagged, found: foundVM("u", ours, "m"), want: yes},
		"BrokenOurs":     {reason: "the tags suffice", recorded: broken, found: foundVM("u", ours, "m"), want: yes},
		"BrokenAbsent":   {reason: "it may be anywhere", recorded: broken, refused: "cannot be read: fault"},
		"GivenUpAbsent":  {reason: "an operator has decided", recorded: abandoned, want: no},
		"GivenUpTags":    {reason: "an operator has decided", recorded: abandoned, found: foundVM("u", theirs, "m"), want: no},
		"GivenUpOurs":    {reason: "its own VirtualMachine is deleted nevertheless", recorded: abandoned, found: foundVM("u", ours, "m"), want: yes},
	}

	c := &providerapi.Clients{Server: "s", Namespace: "here"}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := owns(c, targetMachine{name: "m", identity: ours, address: tc.recorded, created: !tc.unmade}, tc.found)
			require.Equal(t, tc.want, got, tc.reason)

			if tc.refused == "" {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorIs(t, err, spi.ErrAddressChanged, tc.reason)
			require.ErrorContains(t, err, tc.refused)
			require.ErrorContains(t, err, "kubectl annotate --overwrite machine m kubevirt.machine.gardener.cloud/address=abandoned")
		})
	}
}

// TestAddressChanged_NamesBothAddresses tests long addresses: the remedy must not be truncated.
func TestAddressChanged_NamesBothAddresses(t *testing.T) {
	t.Parallel()

	c := &providerapi.Clients{Server: "https://new.example.com/k8s/c-2", Namespace: "here"}
	recorded := recordedIn("there")
	recorded.Server = "https://old.example.com/k8s/c-1"

	_, err := owns(c, targetMachine{name: "m", identity: ours, address: recorded, created: true}, nil)
	require.EqualError(t, err, "address changed: the Machine was created in namespace there of https://old.example.com/k8s/c-1 with the tags shoot--x "+
		"and node; VirtualMachine m is not found in namespace here of https://new.example.com/k8s/c-2 with the tags shoot--x and node; restore the "+
		"server of the kubeconfig and the namespace of the kubeconfig, or abandon the machine: kubectl annotate --overwrite machine m "+
		"kubevirt.machine.gardener.cloud/address=abandoned")
}

// TestTargetOfDeletion_Orphan ignores the Machine of an orphan, which machine-controller-manager
// fabricates.
func TestTargetOfDeletion_Orphan(t *testing.T) {
	t.Parallel()

	require.False(t, targetOfDeletion(&spi.DeleteMachineInput{Orphan: true, HasProviderID: true}).created)
	require.True(t, targetOfDeletion(&spi.DeleteMachineInput{HasProviderID: true}).created)
	require.True(t, targetOfDeletion(&spi.DeleteMachineInput{Recorded: &spi.RecordedAddress{}}).created)
}
