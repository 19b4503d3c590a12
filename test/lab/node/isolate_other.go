// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import "errors"

// Isolate fails: only Linux has namespaces.
func Isolate() error { return errors.New("real nodes need Linux") }
