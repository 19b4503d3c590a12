// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package statustext makes texts safe for their consumers: for machine-controller-manager, which
// parses, compares and shows the texts of errors, and for terminals. pkg/kubevirt uses it for the
// driver's errors, pkg/driverrpc for the errors of a remote driver, and mcm-kubevirt for texts from
// a provider cluster. It must not depend on the content of the texts.
package statustext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
)

// MaxLength bounds a text, in bytes: machine-controller-manager compares old and new texts
// character by character.
const MaxLength = 1000

// Fit makes a message fit for machine-controller-manager, which parses the code and the message
// from the error's text, between square brackets (pkg/util/provider/machinecodes/status), so the
// message must not contain any. A message that already fits is returned unchanged.
func Fit(message string) string {
	return cut(sanitized(message), MaxLength)
}

// FitWithRemedy is like Fit, for a message that ends with a remedy. If the message is too long, it
// is cut before the remedy.
func FitWithRemedy(message, remedy string) string {
	if remedy == "" {
		return Fit(message)
	}

	end := "; " + cut(sanitized(remedy), MaxLength/2)

	return cut(sanitized(message), MaxLength-len(end)) + end
}

// sanitized replaces characters and phrases that machine-controller-manager would misread.
func sanitized(message string) string {
	message = strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			return '('
		case r == ']':
			return ')'
		case unicode.IsControl(r):
			return ' '
		default:
			return r
		}
	}, message)

	return withoutPhrases.Replace(message)
}

// withoutPhrases changes the phrases that machine-controller-manager searches for in the text of a
// Machine's last operation: the names of its steps (pkg/util/provider/machineutils/utils.go), and
// the code that starts its search for orphans. A provider that writes one of them would move a
// Machine to another step.
var withoutPhrases = strings.NewReplacer(inLowerCase(
	machineutils.GetVMStatus, machineutils.InstanceInitialization, machineutils.InitiateDrain, machineutils.NodeReadyForUpdate,
	machineutils.DelVolumesAttachments, machineutils.InitiateVMDeletion, machineutils.InitiateNodeDeletion,
	machineutils.InitiateFinalizerRemoval, codes.OutOfRange.String(),
)...)

// inLowerCase returns each phrase with its replacement.
func inLowerCase(phrases ...string) []string {
	pairs := make([]string, 0, 2*len(phrases))
	for _, phrase := range phrases {
		pairs = append(pairs, phrase, strings.ToLower(phrase))
	}

	return pairs
}

// cut shortens a message to the given number of bytes, at a character boundary.
func cut(message string, length int) string {
	const ellipsis = " …"

	if len(message) <= length {
		return message
	}

	end := length - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}

	return message[:end] + ellipsis
}
