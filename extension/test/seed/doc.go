// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package seed runs a Gardener seed in the lab, and simulates gardenlet: it installs Gardener's
// CRDs in the lab's control cluster, starts the extension and gardener-resource-manager as
// processes, and creates shoots with Gardener's own deployers. Since the lab has no kubelet, it
// also runs the containers of machine-controller-manager's Deployment as processes. The tests and
// the demo of the extension use it. It controls the lab through its command and its state, and must
// not import the extension, whose process is under test.
package seed
