// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package upgrade tests that machines outlive an upgrade of KubeVirt in place. Its tests have the
// build tag soak, and a lab of their own, since the other tests share theirs.
package upgrade
