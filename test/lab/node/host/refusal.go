// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

// Refusal returns an exit code and the reason why no test of real nodes runs on this machine, or "". missing is what this machine
// lacks, and demand is the value of LAB_NODES.
func Refusal(missing error, demand string) (code int, text string) {
	const required = "required"

	switch {
	case demand != "" && demand != required:
		return 1, "FAILED: LAB_NODES=" + demand + " is not a value of it: set LAB_NODES=required, or leave it empty."
	case missing == nil:
		return 0, ""
	case demand == required:
		return 1, missing.Error() + "\nFAILED: LAB_NODES=required, and no node was started."
	default:
		return 0, missing.Error() + "\nSKIPPED: no node was started, and nothing is proven. LAB_NODES=required makes this a failure."
	}
}
