// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which objects of a provider cluster belong to a shoot. All controllers
// that write to provider clusters call it. It must not depend on a client.
//
// The technical ID is unique in a landscape only: two landscapes can have Shoots with one technical ID
// in one namespace of a provider cluster. So objects have the Shoot's UID, too. Those from before this
// label have the technical ID alone, and are adopted.
package ownership

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// Owner is the Shoot to which objects belong.
type Owner struct {
	// TechnicalID is status.technicalID of the Shoot.
	TechnicalID string
	// UID is status.uid of the Shoot, which does not change when its control plane moves to another
	// seed, or when the garden is restored. An empty UID owns all objects with the technical ID.
	UID types.UID
}

// Of returns the owner of a Shoot's objects.
func Of(shoot *gardencorev1beta1.Shoot) Owner {
	return Owner{TechnicalID: shoot.Status.TechnicalID, UID: shoot.Status.UID}
}

// Labels returns the labels of the owner's objects.
func (o Owner) Labels() map[string]string {
	labels := map[string]string{kubevirt.LabelShoot: o.TechnicalID}
	if o.UID != "" {
		labels[providerspec.TagShootUID] = string(o.UID)
	}

	return labels
}

// Selector selects the objects with the technical ID. Those for which Owns returns false belong to
// another landscape.
func (o Owner) Selector() client.MatchingLabels {
	return client.MatchingLabels{kubevirt.LabelShoot: o.TechnicalID}
}

// Owns reports whether an object belongs to the owner.
func (o Owner) Owns(object client.Object) bool {
	return object.GetLabels()[kubevirt.LabelShoot] == o.TechnicalID && !o.IsForeign(object)
}

// IsForeign reports whether an object belongs to another Shoot with the same technical ID, provided that
// it has the technical ID.
func (o Owner) IsForeign(object client.Object) bool {
	return providerspec.IsOfOtherShoot(object.GetLabels(), string(o.UID))
}

// Check returns an error unless an object belongs to the owner. The description begins the error.
func (o Owner) Check(description string, object client.Object) error {
	switch {
	case o.Owns(object):
		return nil
	case object.GetLabels()[kubevirt.LabelShoot] == o.TechnicalID:
		return o.Foreign(description, object)
	case object.GetLabels()[kubevirt.LabelShoot] != "":
		return fmt.Errorf("%s belongs to another shoot: its label is not %s=%s; use separate namespaces of the provider cluster for both shoots",
			description, kubevirt.LabelShoot, o.TechnicalID)
	default:
		return fmt.Errorf("%s exists, but does not belong to the shoot: it is not labelled %s=%s; delete it",
			description, kubevirt.LabelShoot, o.TechnicalID)
	}
}

// Foreign returns the error for an object of another Shoot with the same technical ID.
func (o Owner) Foreign(description string, object client.Object) error {
	return fmt.Errorf("%s belongs to another Shoot with the technical ID %s: it is labelled %s=%s, and this Shoot has the UID %s; "+
		"use separate namespaces of the provider cluster for both landscapes, or delete the object if the other Shoot does not exist any more",
		description, o.TechnicalID, providerspec.TagShootUID, object.GetLabels()[providerspec.TagShootUID], o.UID)
}

// Adopt adds the UID to an object of the owner that lacks it. It reports whether it changed the object.
func (o Owner) Adopt(object client.Object) bool {
	if o.UID == "" || object.GetLabels()[providerspec.TagShootUID] != "" {
		return false
	}

	labels := object.GetLabels()
	labels[providerspec.TagShootUID] = string(o.UID)
	object.SetLabels(labels)

	return true
}
