// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package host

// isDelegated is only called on Linux.
func isDelegated(string) bool { return false }
