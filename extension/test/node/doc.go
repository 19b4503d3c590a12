// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs a Shoot on real provider nodes: its machines are virtual machines of QEMU in which Debian boots, whose kubelets join the
// shoot's API server.
//
// `make test-node` calls it, as root. It must not know how the nodes are made.
package node
