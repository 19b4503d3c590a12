// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures requests, times and memory against the lab. All its tests have the build
// tag bench.
package bench
