// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// recoverPanics fails the call if the driver panics, and keeps the process alive. Neither the
// response nor the log contains the value of the panic, which may be a secret, unless it is a
// runtime error.
func recoverPanics(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(causeOf(p), "The driver panicked", "method", info.FullMethod, "stack", string(debug.Stack()))

			resp = nil
			err = grpcstatus.Error(grpccodes.Internal, "the driver panicked; see the stack trace in its log")
		}
	}()

	return handle(ctx, req)
}

func causeOf(panicked any) error {
	if err, ok := panicked.(runtime.Error); ok {
		return err
	}

	return fmt.Errorf("a value of type %T", panicked)
}

// limitDuration bounds calls without a deadline, or with a deadline too far in the future.
func limitDuration(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	timeout, ok := timeouts[info.FullMethod]
	if !ok {
		return handle(ctx, req)
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	return handle(ctx, req)
}

// limitConcurrency bounds the number of concurrent calls; one client may use half of them. Further
// calls wait, because machine-controller-manager would show the machine of a rejected call as failed.
func limitConcurrency(maxCalls int) grpc.UnaryServerInterceptor {
	calls := newLimiter(int64(maxCalls), int64(maxCalls+1)/2)

	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if _, ok := timeouts[info.FullMethod]; !ok || info.FullMethod == driverv1.MachineDriver_GetInfo_FullMethodName {
			return handle(ctx, req) // It does not reach the driver.
		}

		release, err := calls.acquire(ctx, 1)
		if err != nil {
			return nil, grpcstatus.Error(grpccodes.Unavailable, "too many concurrent calls")
		}
		defer release()

		return handle(ctx, req)
	}
}
