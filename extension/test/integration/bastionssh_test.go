// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// user is a user of gardenctl with a key.
type user struct {
	signer    ssh.Signer
	publicKey string
}

func newUser(t *testing.T) *user {
	t.Helper()

	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)

	signer, err := ssh.NewSignerFromSigner(private)
	require.NoError(t, err)

	return &user{signer: signer, publicKey: string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// requireLogin starts an SSH server that authorizes the key in the user data, as the guest of a bastion does, and connects
// through it to a Node. A user with another key cannot log in.
func (u *user) requireLogin(t *testing.T, userData string) {
	t.Helper()

	node := listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-node\r\n")
		_ = c.Close()
	})
	guest := listen(t, serveSSH(t, userData))

	bastion, err := u.login(guest)
	require.NoError(t, err)

	t.Cleanup(func() { _ = bastion.Close() })

	connection, err := bastion.Dial("tcp", node)
	require.NoError(t, err)

	greeting, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.Equal(t, "SSH-2.0-node\r\n", string(greeting))

	_, err = newUser(t).login(guest)
	require.ErrorContains(t, err, "unable to authenticate")
}

func (u *user) login(address string) (*ssh.Client, error) {
	return ssh.Dial("tcp", address, &ssh.ClientConfig{
		User:            "gardener",
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(u.signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
}

// listen serves connections until the test ends, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			go serve(connection)
		}
	}()

	return listener.Addr().String()
}

// serveSSH returns a server that forwards connections for those keys that the user data writes to authorized_keys.
func serveSSH(t *testing.T, userData string) func(net.Conn) {
	t.Helper()

	written := regexp.MustCompile(`echo "(.*)" > /home/gardener/.ssh/authorized_keys`).FindStringSubmatch(userData)
	require.Len(t, written, 2, userData)

	authorized, _, _, _, err := ssh.ParseAuthorizedKey([]byte(written[1]))
	require.NoError(t, err)

	config := &ssh.ServerConfig{PublicKeyCallback: func(login ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if login.User() != "gardener" || !bytes.Equal(key.Marshal(), authorized.Marshal()) {
			return nil, errors.New("not authorized")
		}

		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(newUser(t).signer)

	return func(c net.Conn) {
		_, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			_ = c.Close()

			return
		}

		go ssh.DiscardRequests(requests)

		for channel := range channels {
			go forward(channel)
		}
	}
}

// forward copies what the target of a channel sends.
func forward(channel ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		Originator string
		From       uint32
	}

	if err := ssh.Unmarshal(channel.ExtraData(), &target); err != nil || channel.ChannelType() != "direct-tcpip" {
		_ = channel.Reject(ssh.UnknownChannelType, "only for connections to Nodes")

		return
	}

	connection, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(target.Host), Port: int(target.Port)})
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())

		return
	}

	accepted, requests, err := channel.Accept()
	if err != nil {
		return
	}

	go ssh.DiscardRequests(requests)

	_, _ = io.Copy(accepted, connection)
	_ = accepted.Close()
	_ = connection.Close()
}
