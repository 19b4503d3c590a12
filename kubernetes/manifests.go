// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubernetes contains the shipped manifests. The lab, the tests and the demo read them from
// here, so that exactly the shipped manifests are tested. It must not depend on their use, and the
// driver must not import it.
package kubernetes

import "embed"

// Manifests are the files of this folder.
//
//go:embed base control-namespace diagnose evacuation example gardener-sidecar grpc-driver machineclass monitoring
//go:embed provider-cluster provider-namespace provider-namespace-without-golden-images
//go:embed shared-image standalone standalone-separate-target target
var Manifests embed.FS
