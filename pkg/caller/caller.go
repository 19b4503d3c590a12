// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package caller carries the ID of the calling process in a context. pkg/driverrpc sets it for
// requests that arrive over gRPC; pkg/providercluster reads it, because it relies on
// observations only if one process has made them without a restart. It must not depend on either of
// them.
package caller

import "context"

// ID identifies a process. It is a name, and grants no permissions.
type ID string

const (
	// ThisProcess is the default: the driver runs in the process of its caller.
	ThisProcess ID = ""
	// Unknown is a caller that has not identified its process: two such requests may come from
	// different processes.
	Unknown ID = "unknown"
)

type key struct{}

// With returns a context for the requests of a process.
func With(ctx context.Context, id ID) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// Of returns the process set by With.
func Of(ctx context.Context) ID {
	id, _ := ctx.Value(key{}).(ID)

	return id
}
