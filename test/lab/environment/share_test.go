// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

func TestShare(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "lab-") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	socket := filepath.Join(folder, "lab.sock")

	_, _, err = connect(t.Context(), socket)
	require.Error(t, err, "no lab is shared at this socket")

	var added []kubelet.Node
	want := description{Dir: "/lab", ProviderKubeconfig: "/p", ControlConfig: "/c", Binaries: &binaries.Binaries{Kubectl: "/kubectl"}}
	server := newShareServer(want, func(_ context.Context, node kubelet.Node) error {
		if node.Name == "" {
			return errors.New("no name")
		}
		added = append(added, node)
		return nil
	})
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()

	first, got, err := connect(t.Context(), socket)
	require.NoError(t, err)
	require.Equal(t, want, *got)
	second, _, err := connect(t.Context(), socket)
	require.NoError(t, err)

	node := kubelet.Node{Name: "n", Region: "r", Zone: "z", CPU: "1", Memory: "1Gi", Pods: 2, Taint: "t", WithoutKVM: true}
	require.NoError(t, first.addNode(t.Context(), node))
	require.Equal(t, []kubelet.Node{node}, added)
	require.ErrorContains(t, first.addNode(t.Context(), kubelet.Node{}), "no name")

	require.NoError(t, first.leave())
	select {
	case <-second.ended:
		require.Fail(t, "a leaving process must not affect the others")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, server.Close())
	<-second.ended
}
