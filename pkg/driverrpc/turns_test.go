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

// TestTurnsAreShared has one client take all turns that it may use,
// and hold them while others call.
func TestTurnsAreShared(t *testing.T) {
	t.Parallel()

	const many = 4

	shared := newTurns(many)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	over, cancel := context.WithCancel(t.Context())
	cancel()

	call := func(ctx context.Context, method string, handle grpc.UnaryHandler) error {
		_, err := shared.intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, handle)

		return err
	}
	hold := func(ctx context.Context, request any) (any, error) {
		begun <- struct{}{}
		<-end

		return request, ctx.Err()
	}
	occupy := func(client string) {
		for range many / 2 {
			go func() {
				ended <- call(as(t.Context(), client), driverv1.MachineDriver_DeleteMachine_FullMethodName, hold)
			}()

			<-begun
		}
	}
	served := func(context.Context, any) (any, error) { return struct{}{}, nil }
	refused := func(client string) {
		err := call(as(over, client), driverv1.MachineDriver_CreateMachine_FullMethodName, func(context.Context, any) (any, error) {
			require.FailNow(t, "it is not its turn", client)

			return struct{}{}, nil
		})
		require.Equal(t, grpccodes.Unavailable, grpcstatus.Code(err), client)
	}

	occupy("greedy")
	refused("greedy")
	require.NoError(t, call(as(t.Context(), "modest"), driverv1.MachineDriver_CreateMachine_FullMethodName, served))

	occupy("modest")
	refused("third")
	require.NoError(t, call(as(t.Context(), "third"), driverv1.MachineDriver_GetInfo_FullMethodName, served), "it reaches no cluster")
	require.NoError(t, call(as(t.Context(), "third"), "/grpc.health.v1.Health/Check", served))

	close(end)

	for range many {
		require.NoError(t, <-ended)
	}

	require.Empty(t, shared.clients, "who has no calls is forgotten")
}
