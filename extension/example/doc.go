// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package example contains the manifests that register the extension in a garden. The tests of the
// package validate them; programs do not read them.
package example
