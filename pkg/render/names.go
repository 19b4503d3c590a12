// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// uidDigits is the number of digits of the Machine's UID in a DataVolume's name.
const uidDigits = 5

var uidPrefix = regexp.MustCompile(`^[0-9a-f]{5}`)

// SecretName returns the name of a machine's user data Secret.
func SecretName(machine string) string {
	return objectName(machine, "userdata")
}

// SSHKeysSecretName returns the name of the Secret with a machine's SSH keys. It is short because
// KubeVirt appends "-access-cred" to it for the name of a volume in the pod
// (pkg/virt-controller/services/rendervolumes.go).
func SSHKeysSecretName(machine string) string {
	return "ssh-" + digest(machine)[:16]
}

// DataVolumeName returns the name of a machine's DataVolume for one of its volumes. It
// contains a part of the Machine's UID, since KubeVirt lets CDI adopt a left-over
// claim of the same name, with its old content.
func DataVolumeName(machine string, uid types.UID, volume string) string {
	return objectName(machine, shortUID(uid)+"-"+volume)
}

// objectName joins a machine's name and a suffix to a DNS label. In a name that would be too long,
// a hash of the whole replaces the end.
func objectName(machine, suffix string) string {
	name := machine + "-" + suffix
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}

	hash := digest(name)[:8]

	return name[:validation.DNS1123LabelMaxLength-len(hash)-1] + "-" + hash
}

func shortUID(uid types.UID) string {
	if prefix := uidPrefix.FindString(string(uid)); prefix != "" {
		return prefix
	}

	return digest(string(uid))[:uidDigits]
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))

	return hex.EncodeToString(sum[:])
}
