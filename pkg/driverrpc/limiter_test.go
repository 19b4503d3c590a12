// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// as returns a context for the calls of a client with a certificate.
func as(ctx context.Context, client string) context.Context {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: client}}
	info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}

	return peer.NewContext(ctx, &peer.Peer{AuthInfo: info})
}

// TestLimitConcurrency_ClientShare has one client use all calls of its share and keep them running
// while others call.
func TestLimitConcurrency_ClientShare(t *testing.T) {
	t.Parallel()

	const maxCalls = 4

	intercept := limitConcurrency(maxCalls)
	started := make(chan struct{})
	finish := make(chan struct{})
	finished := make(chan error)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	call := func(ctx context.Context, method string, handle grpc.UnaryHandler) error {
		_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, handle)

		return err
	}
	block := func(ctx context.Context, request any) (any, error) {
		started <- struct{}{}
		<-finish

		return request, ctx.Err()
	}
	occupy := func(client string) {
		for range maxCalls / 2 {
			go func() {
				finished <- call(as(t.Context(), client), driverv1.MachineDriver_DeleteMachine_FullMethodName, block)
			}()

			<-started
		}
	}
	succeed := func(context.Context, any) (any, error) { return struct{}{}, nil }
	requireWait := func(client string) {
		err := call(as(cancelled, client), driverv1.MachineDriver_CreateMachine_FullMethodName, func(context.Context, any) (any, error) {
			require.FailNow(t, "the call exceeds the limit", client)

			return struct{}{}, nil
		})
		require.Equal(t, grpccodes.Unavailable, grpcstatus.Code(err), client)
	}

	occupy("greedy")
	requireWait("greedy")
	require.NoError(t, call(as(t.Context(), "modest"), driverv1.MachineDriver_CreateMachine_FullMethodName, succeed))

	occupy("modest")
	requireWait("third")
	require.NoError(t, call(as(t.Context(), "third"), driverv1.MachineDriver_GetInfo_FullMethodName, succeed), "it reaches no cluster")
	require.NoError(t, call(as(t.Context(), "third"), "/grpc.health.v1.Health/Check", succeed))

	close(finish)

	for range maxCalls {
		require.NoError(t, <-finished)
	}
}

// TestLimiter acquires shares of clients with and without a certificate.
func TestLimiter(t *testing.T) {
	t.Parallel()

	const size, share = 4, 2

	limit := newLimiter(size, share)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	first, err := limit.acquire(as(t.Context(), "a"), share)
	require.NoError(t, err)

	_, err = limit.acquire(as(cancelled, "a"), 1)
	require.ErrorIs(t, err, context.Canceled, "the client's share is in use")

	_, err = limit.acquire(cancelled, size)
	require.ErrorIs(t, err, context.Canceled, "a part of the total is in use")

	second, err := limit.acquire(as(t.Context(), "b"), share)
	require.NoError(t, err)

	first()
	second()

	all, err := limit.acquire(t.Context(), size)
	require.NoError(t, err, "a client of a socket may use everything, and a failed call has released its share")
	require.Len(t, limit.clients, 1)

	all()
	require.Empty(t, limit.clients, "clients without calls are removed")
}
