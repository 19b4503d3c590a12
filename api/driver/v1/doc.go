// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package driverv1 is machine-controller-manager's driver interface over gRPC: driver.proto, and
// the Go code that buf generates from it. pkg/driverrpc translates between it and
// machine-controller-manager's Go interface, and Go clients may use it directly. It must not depend
// on either of them.
package driverv1
