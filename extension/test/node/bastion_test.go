// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// requireBastion requires that a user reaches the SSH server of the worker through a bastion, in which Debian runs: from the admitted
// address only, with their key only, and with the same host key after a restart. The network of the nodes has no NetworkPolicies: the load
// balancer alone refuses other clients.
func requireBastion(t *testing.T, shoot *seed.Botanist, worker *corev1.Node) {
	t.Helper()

	user := newUser(t)
	bastion := shoot.NewBastion(user.publicKey(), node.Gateway+"/32")

	uncordon := cordon(t, node.Names(2)[1:]) // load balancers lead to the first node
	defer uncordon()

	address := openBastion(t, bastion)
	target := net.JoinHostPort(addressOf(worker), "22")

	user.requireGreeting(t, address, target)
	require.ErrorContains(t, newUser(t).login(address, func(*ssh.Client) error { return nil }), "unable to authenticate")

	restartBastion(t, shoot)
	user.requireGreeting(t, address, target)

	require.NoError(t, bastion.Admit(t.Context(), "192.0.2.8/32"))
	awaitBastion(t, bastion, time.Minute, func(error) bool { return !isOpen(t.Context(), address) })
	require.NoError(t, bastion.Delete(t.Context()))
	awaitBastion(t, bastion, 5*time.Minute, apierrors.IsNotFound)
}

// openBastion returns the address of the load balancer of a bastion whose SSH server runs.
func openBastion(t *testing.T, bastion *seed.Bastion) (address string) {
	t.Helper()

	began := time.Now()
	awaitBastion(t, bastion, bootLimit, func(error) bool {
		ready := v1beta1helper.GetCondition(bastion.Object.Status.Conditions, operationsv1alpha1.BastionReady)

		return ready != nil && ready.Status == gardencorev1beta1.ConditionTrue && bastion.Object.Status.Ingress != nil
	})
	t.Logf("the bastion is open, %.0f s after it was created", time.Since(began).Seconds())

	return net.JoinHostPort(bastion.Object.Status.Ingress.IP, "22")
}

// awaitBastion runs gardenlet's controller until a check holds.
func awaitBastion(t *testing.T, bastion *seed.Bastion, atMost time.Duration, check func(error) bool) {
	t.Helper()
	eventually(t, atMost, func(ctx context.Context) (bool, string) {
		err := bastion.Reconcile(ctx)

		return check(err), fmt.Sprint(err, bastion.Object.Status)
	})
}

// restartBastion deletes the instance of a bastion, as an eviction does, and waits for the next one.
func restartBastion(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	ofBastion := []client.ListOption{client.InNamespace(shoot.ProviderNamespace), client.HasLabels{"kubevirt.provider.extensions.gardener.cloud/bastion"}}
	before := &kubevirtv1.VirtualMachineInstanceList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), before, ofBastion...))
	require.Len(t, before.Items, 1)
	require.NoError(t, theSeed.Provider.Delete(t.Context(), &before.Items[0]))

	after := &kubevirtv1.VirtualMachineInstanceList{}

	eventually(t, bootLimit, func(ctx context.Context) (bool, string) {
		err := theSeed.Provider.List(ctx, after, ofBastion...)

		return err == nil && len(after.Items) == 1 && after.Items[0].UID != before.Items[0].UID && after.Items[0].IsRunning(), fmt.Sprint(err)
	})
}

// isOpen reports whether a server accepts connections.
func isOpen(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: 5 * time.Second} //nolint:mnd // an emulated guest is slow

	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}

	_ = connection.Close()

	return true
}

// user is a user of gardenctl with a key. SSH clients know hosts by the key of the first connection.
type user struct {
	signer ssh.Signer
	host   ssh.PublicKey
}

func newUser(t *testing.T) *user {
	t.Helper()

	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)

	signer, err := ssh.NewSignerFromSigner(private)
	require.NoError(t, err)

	return &user{signer: signer}
}

func (u *user) publicKey() string {
	return string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(u.signer.PublicKey())))
}

// requireGreeting requires that the user gets the greeting of an SSH server through the bastion, as with ssh -W.
func (u *user) requireGreeting(t *testing.T, bastion, target string) {
	t.Helper()

	greeting := make([]byte, len("SSH-2.0-OpenSSH"))

	eventually(t, bootLimit, func(context.Context) (bool, string) {
		err := u.login(bastion, func(c *ssh.Client) error {
			connection, err := c.Dial("tcp", target)
			if err != nil {
				return err
			}

			_, err = io.ReadFull(connection, greeting)

			return errors.Join(err, connection.Close())
		})

		return err == nil, fmt.Sprint(err)
	})
	require.Equal(t, "SSH-2.0-OpenSSH", string(greeting))
}

// login connects to a bastion, whose host key must be that of the user's first connection.
func (u *user) login(bastion string, use func(*ssh.Client) error) error {
	connection, err := ssh.Dial("tcp", bastion, &ssh.ClientConfig{
		User:    "gardener",
		Auth:    []ssh.AuthMethod{ssh.PublicKeys(u.signer)},
		Timeout: 30 * time.Second, //nolint:mnd // an emulated guest is slow
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if u.host == nil {
				u.host = key
			}

			if !bytes.Equal(u.host.Marshal(), key.Marshal()) {
				return errors.New("the host key has changed")
			}

			return nil
		},
	})
	if err != nil {
		return err
	}

	return errors.Join(use(connection), connection.Close())
}
