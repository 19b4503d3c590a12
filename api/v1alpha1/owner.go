// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// IsOfOtherShoot reports whether the labels of an object on a provider cluster name another Shoot than
// that with the given UID. An object without the label is older than the label, and a shoot without a
// UID is not one of Gardener's extension: the technical ID alone decides about them.
func IsOfOtherShoot(labels map[string]string, uid string) bool {
	label := labels[TagShootUID]

	return label != "" && uid != "" && label != uid
}
