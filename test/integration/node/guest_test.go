// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// operatorKey is the SSH key of the operator of all workers.
var operatorKey = sync.OnceValue(func() ssh.Signer {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}

	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		panic(err)
	}

	return signer
})

// authorizedKey returns the public key in the format of a ProviderSpec.
func authorizedKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(operatorKey().PublicKey())))
}

// login runs a command in the guest as an operator with the SSH key does, and returns its output. It waits for the guest's server, and
// for the launcher's address in the instance.
func (w *worker) login(t *testing.T, command string) (string, error) {
	t.Helper()

	var client *ssh.Client

	config := &ssh.ClientConfig{
		User:            "debian",
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(operatorKey())},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // the guest has just made its key
		Timeout:         time.Minute,
	}

	harness.Eventually(t, "a login into the guest", func(ctx context.Context) (bool, error) {
		address, err := w.address(ctx)
		if err != nil {
			return false, err
		}

		client, err = ssh.Dial("tcp", net.JoinHostPort(address, "22"), config)

		return err == nil, err
	})

	defer client.Close() //nolint:errcheck // the output has been read

	session, err := client.NewSession()
	require.NoError(t, err)

	output, err := session.CombinedOutput(command)

	return strings.TrimSpace(string(output)), err
}

// mustLogin requires that a command in the guest succeeds.
func (w *worker) mustLogin(t *testing.T, command string) string {
	t.Helper()

	output, err := w.login(t, command)
	require.NoError(t, err, "%s: %s", command, output)

	return output
}

// address returns the address of the guest on the pod network.
func (w *worker) address(ctx context.Context) (string, error) {
	found, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(ctx, w.machine.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}

	for _, status := range found.Status.Interfaces {
		if status.Name == "default" && status.IP != "" {
			return status.IP, nil
		}
	}

	return "", errors.New("the instance has no address")
}

// awaitAddress waits until the guest has an address on the pod network, and returns it.
func (w *worker) awaitAddress(t *testing.T) (address string) {
	t.Helper()
	harness.Eventually(t, w.machine.Name+" has an address", func(ctx context.Context) (_ bool, err error) {
		address, err = w.address(ctx)

		return err == nil, err
	})

	return address
}

// logConsole writes the end of the guest's console to the output of a failed test.
func (w *worker) logConsole(t *testing.T) {
	t.Helper()

	if !t.Failed() {
		return
	}

	const enough = 4000

	text, err := w.consoleOf(context.WithoutCancel(t.Context()), w.machine.Name)
	t.Logf("console: %v\n%s", err, text[max(0, len(text)-enough):])
}
