// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"encoding/base64"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// canary is in every text of the hostile kubeconfigs, plain or in base64. No error may repeat it.
const canary = "canary-7f3a9c51"

// refusals maps each file of testdata/hostile to the text that its error must contain. Empty means
// that the kubeconfig is accepted, because its harmful parts are not used.
var refusals = map[string]string{
	"exec": "exec", "exec-beside-token": "exec",
	"auth-provider": "auth-provider", "auth-provider-cmd": "auth-provider",
	"token-file": "tokenFile", "token-file-beside-token": "tokenFile",
	"client-certificate-file": "client-certificate", "client-key-file": "client-key",
	"certificate-authority-file": "certificate-authority", "certificate-authority-relative": "certificate-authority",
	"proxy-http": "proxy-url", "proxy-socks5": "proxy-url",
	"impersonate-user": "field as of", "impersonate-groups": "field as-groups", "impersonate-extra": "field as-user-extra", "impersonate-uid": "field as-uid",
	"credentials-none": "no credentials", "credentials-no-user-name": "no credentials",
	"tls-server-name-control-characters": "field tls-server-name", "tls-server-name-space": "field tls-server-name",
	"insecure-skip-tls-verify": "insecure-skip-tls-verify", "insecure-with-authority": "insecure-skip-tls-verify",
	"server-http": "field server", "server-no-scheme": "field server", "server-user-info": "field server", "server-query": "field server",
	"server-fragment": "field server", "server-unparsable": "field server", "server-control-characters": "field server",
	"server-odd-host": "field server", "server-unix-socket": "field server", "server-file": "field server",
	"server-no-host": "field server", "server-missing": "field server",
	"yaml-bomb": "anchors", "yaml-string-bomb": "anchors", "yaml-anchor": "anchors", "yaml-merge": "anchors",
	"yaml-deep": "wrong type", "yaml-too-deep": "YAML or JSON", "json-deep": "YAML or JSON", "yaml-tag": "wrong type",
	"contexts-bad-current": "exec", "contexts-bad-unused": "",
	"context-none": "current-context", "context-unknown": "current-context", "context-twice": "duplicate",
	"context-unknown-cluster": "clusters", "context-unknown-user": "users", "context-without-user": "users", "context-namespace-path": "namespace",
	"base64-broken": "base64", "pem-garbage": "PEM", "pem-garbage-key": "PEM",
	"certificate-without-key": "client-key-data", "key-without-certificate": "client-certificate-data",
	"token-newline": "token", "token-and-basic": "username", "keys-twice": "duplicate",
	"wrong-version": "apiVersion v1", "internal-version": "apiVersion v1", "wrong-kind": "kind Config", "wrong-types": "wrong type",
	"empty": "kind Config", "null": "kind Config", "scalar": "kind Config", "truncated": "YAML or JSON", "binary": "YAML or JSON",
}

// trap is the target of hostile kubeconfigs.
type trap struct {
	dir         string
	listener    net.Listener
	connections atomic.Int32
	// dialled buffers the first connection.
	dialled chan struct{}
}

// newTrap creates a folder with a pipe, on which a reader would hang, and a program, which would
// leave a file behind; and a listener.
func newTrap(t *testing.T) *trap {
	t.Helper()

	tr := &trap{dir: t.TempDir(), dialled: make(chan struct{}, 1)}
	require.NoError(t, syscall.Mkfifo(tr.path("pipe"), 0o600))
	require.NoError(t, os.WriteFile(tr.path("program"), []byte("#!/bin/sh\ntouch "+tr.path("executed")+"\n"), 0o700))

	var (
		config net.ListenConfig
		err    error
	)

	tr.listener, err = config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.listener.Close()) })

	go func() {
		for {
			connection, err := tr.listener.Accept()
			if err != nil {
				return
			}

			tr.connections.Add(1)

			_ = connection.Close() // Only the attempt counts.

			select {
			case tr.dialled <- struct{}{}:
			default:
			}
		}
	}()

	return tr
}

func (tr *trap) path(name string) string { return filepath.Join(tr.dir, name) }

// bait inserts the trap into a kubeconfig.
func (tr *trap) bait(raw []byte) []byte {
	return []byte(strings.NewReplacer("LISTENER", tr.listener.Addr().String(), "DIR", tr.dir).Replace(string(raw)))
}

// requireUntouched requires that nothing was run, read or dialled.
func (tr *trap) requireUntouched(t *testing.T) {
	t.Helper()

	require.NoFileExists(t, tr.path("executed"))
	require.Zero(t, tr.connections.Load(), "nothing is dialled")

	_, err := os.OpenFile(tr.path("pipe"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.ErrorIs(t, err, syscall.ENXIO, "nobody reads the pipe")
}

// newClients requests clients. If it hangs, such as on the trap's pipe, the test times out.
func newClients(t *testing.T, raw []byte) error {
	t.Helper()

	_, err := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1}).For(raw)

	return err
}

func requireSilent(t *testing.T, err error) {
	t.Helper()

	for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:16]} {
		require.NotContains(t, err.Error(), secret, "errors reach the shoot's status")
	}
}

func TestRESTConfig_Hostile(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/hostile/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(refusals), "each file has its answer")

	for name, names := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tr := newTrap(t)
			raw, err := os.ReadFile(filepath.Join("testdata", "hostile", name+".yaml"))
			require.NoError(t, err)

			err = newClients(t, tr.bait(raw))
			tr.requireUntouched(t)

			if names == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorContains(t, err, names)
			requireSilent(t, err)
			requireKubeconfigFields(t, err)
		})
	}
}

// requireKubeconfigFields requires that each field refused by an
// error has its name in a kubeconfig.
func requireKubeconfigFields(t *testing.T, err error) {
	t.Helper()

	known := map[string]bool{}

	for _, of := range []reflect.Type{
		reflect.TypeFor[clientcmdapiv1.Cluster](), reflect.TypeFor[clientcmdapiv1.AuthInfo](), reflect.TypeFor[clientcmdapiv1.Context](),
	} {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			known[name] = true
		}
	}

	for _, match := range regexp.MustCompile(`field (\S+) of the current context`).FindAllStringSubmatch(err.Error(), -1) {
		require.True(t, known[match[1]], "a kubeconfig has no field %s", match[1])
	}
}

// TestTraps verifies that the traps detect connections and reads.
func TestTraps(t *testing.T) {
	t.Parallel()

	tr := newTrap(t)

	var dialer net.Dialer

	connection, err := dialer.DialContext(t.Context(), "tcp", tr.listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, connection.Close())

	<-tr.dialled
	require.EqualValues(t, 1, tr.connections.Load())

	reader, err := os.OpenFile(tr.path("pipe"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)

	writer, err := os.OpenFile(tr.path("pipe"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err, "a reader is noticed")
	require.NoError(t, errors.Join(reader.Close(), writer.Close()))
}

// TestRESTConfig_Huge tests kubeconfigs that are too large to be kept as files.
func TestRESTConfig_Huge(t *testing.T) {
	t.Parallel()

	valid := string(hostile.KubeconfigWith(t, func(_, _, _ object) {}))
	keyOf := func(size int) []byte {
		return hostile.KubeconfigWith(t, func(_, user, _ object) {
			user["client-key-data"] = []byte(strings.Repeat("k", size))
			user["client-certificate-data"] = []byte(canary)
		})
	}

	tests := map[string]struct {
		reason string
		raw    []byte
		says   string
	}{
		"256KiB":  {"what fits is read", []byte(valid + strings.Repeat(" ", 256<<10-len(valid))), ""},
		"OneMore": {"what does not is not even looked at", []byte(valid + strings.Repeat(" ", 256<<10-len(valid)+1)), "larger than 256 KiB"},
		"64MiB":   {"nor is this", []byte(strings.Repeat("[", 64<<20)), "larger than 256 KiB"},
		"Nodes":   {"as many values as fit", []byte("[" + strings.Repeat("1,", 120<<10) + "1]"), "kind Config"},
		"Keys":    {"a long key takes seconds to check, and is refused before", keyOf(64 << 10), "use a shorter key"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := newClients(t, tc.raw)
			if tc.says == "" {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorContains(t, err, tc.says, tc.reason)
			requireSilent(t, err)
		})
	}
}

// TestRESTConfig_BombsDoNotExpand measures the memory for reading YAML bombs. It runs alone, because
// the memory of other tests would count.
func TestRESTConfig_BombsDoNotExpand(t *testing.T) { //nolint:paralleltest // see above
	const mebibytes = 1 << 20

	text := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 40<<10) + "*a]\n"
	for name, raw := range map[string][]byte{"UTF-8": []byte(text), "UTF-16": wide(text[:60<<10]), "quoted key": []byte(`{"a":&x 1, "b": [*x, *x]}`)} {
		var before, after runtime.MemStats

		runtime.ReadMemStats(&before)

		err := newClients(t, raw)

		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "anchors", name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(mebibytes), "written out it would have gigabytes")
	}
}

// TestRESTConfig_HugeIsNotRead requires the memory for refusing huge kubeconfigs not to depend on
// their size. It runs alone, because the memory of other tests would count.
func TestRESTConfig_HugeIsNotRead(t *testing.T) { //nolint:paralleltest // see above
	const mebibytes = 1 << 20

	raw := []byte(strings.Repeat("[", 64*mebibytes))

	var before, after runtime.MemStats

	runtime.ReadMemStats(&before)

	err := newClients(t, raw)

	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "larger than 256 KiB")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(mebibytes), "it is not even copied")
}

// TestHasAnchor_AmpersandsInWords verifies that ampersands within words are not taken for anchors.
func TestHasAnchor_AmpersandsInWords(t *testing.T) {
	t.Parallel()

	_, _, err := kubeconfig.RESTConfig([]byte("# R&D, Q & A\n" + string(hostile.KubeconfigWith(t, func(_, user, _ object) {
		delete(user, "token")
		user["username"] = "r&d"
		user["password"] = "a&b&c"
	}))))
	require.NoError(t, err)
}

// wide returns a text in UTF-16, which YAML may also use.
func wide(text string) []byte {
	raw := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		raw = append(raw, byte(unit), byte(unit>>8))
	}

	return raw
}
