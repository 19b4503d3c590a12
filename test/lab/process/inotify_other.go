// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

// CheckInotify returns nil: only Linux has inotify.
func CheckInotify(int) error { return nil }
