package driverrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

// recoverPanics keeps the server alive for other machines. Neither the response nor the log
// contains the panic's value, which may be anything, unless it is a runtime error.
func recoverPanics(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(causeOf(p), "The driver panicked", "method", info.FullMethod, "stack", string(debug.Stack()))

			resp, err = nil, grpcstatus.Error(grpccodes.Internal, "the driver panicked; its log says where")
		}
	}()

	return handle(ctx, req)
}

func causeOf(panicked any) error {
	var fault runtime.Error
	if err, ok := panicked.(error); ok && errors.As(err, &fault) {
		return fault
	}

	return fmt.Errorf("a value of type %T", panicked)
}

// setDeadline bounds calls of clients that set no deadline, or one too far in the future.
func setDeadline(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	limit, ok := deadlines[info.FullMethod]
	if !ok {
		return handle(ctx, req)
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	return handle(ctx, req)
}
