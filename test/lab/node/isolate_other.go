// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import "errors"

var errOtherSystem = errors.New("real nodes need Linux")

// Isolate fails: only Linux has namespaces.
func Isolate() error { return errOtherSystem }

// Share fails as well.
func Share() error { return errOtherSystem }
