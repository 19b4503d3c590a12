// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestDiagnose_Console diagnoses a machine whose guest says on its serial console why it does not join, with the account of
// kubernetes/diagnose.
func TestDiagnose_Console(t *testing.T) {
	const refused = "\x1b[0;1;31mfailed to run Kubelet: cannot create certificate signing request with abcdef.0123456789abcdef: Unauthorized\x1b[0m"

	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		disk := printer("Linux version 6.1\r\n" + refused + "\r\n")
		url := serve(t, func(writer http.ResponseWriter, r *http.Request) {
			http.ServeContent(writer, r, "disk.raw", time.Now(), bytes.NewReader(disk))
		})

		return specWith(t, s, fmt.Sprintf(`{"source":{"http":{"url":%q}},"storage":{"resources":{"requests":{"storage":"16Mi"}}}}`, url), 0)
	})
	w.awaitRunning(t)

	kubeconfig := w.diagnosisKubeconfig(t)

	found := w.victim().AwaitCause(t, "GuestTokenRefused", "--provider-kubeconfig="+kubeconfig)
	require.Empty(t, found.Provider.Unread, "the Role of kubernetes/diagnose is enough")
	require.Contains(t, found.Cause.Message, "its console shows: failed to run Kubelet … Unauthorized")
	require.Equal(t, "Pod", found.Cause.Evidence.Object.Kind)

	without, _ := w.DiagnoseMachine(t.Context(), t, w.machine.Name)
	require.Nil(t, without.Cause, "the driver's account does not read consoles")

	w.remove(t)
}

// TestDiagnose_ConsoleOfDebian diagnoses a guest with a whole operating system, in which a command of the user data fails.
func TestDiagnose_ConsoleOfDebian(t *testing.T) {
	w := newMachine(t, func(*testing.T, *harness.Shoot) string {
		return "#cloud-config\nruncmd:\n  - [sh, -c, 'echo kubeadm join --token abcdef.0123456789abcdef; exit 3']\n"
	}, guestSpec)
	w.awaitRunning(t)

	kubeconfig := w.diagnosisKubeconfig(t)

	found := w.victim().AwaitCause(t, "GuestUserDataFailed", "--provider-kubeconfig="+kubeconfig)
	require.NotContains(t, fmt.Sprint(found), "abcdef.0123456789abcdef", "the guest prints it")

	w.remove(t)
}

// diagnosisKubeconfig applies kubernetes/diagnose, and returns the file of a kubeconfig for its account.
func (w *worker) diagnosisKubeconfig(t *testing.T) string {
	t.Helper()

	folder := t.TempDir()
	for i, document := range w.Manifest(t, "diagnose/rbac.yaml") {
		file := filepath.Join(folder, fmt.Sprintf("%d.yaml", i))
		require.NoError(t, os.WriteFile(file, document, 0o600))
		w.kubectl(t, "apply", "--namespace="+w.ProviderNamespace, "-f", file)
	}

	account := harness.Right{
		Cluster:   w.Kube,
		Namespace: w.ProviderNamespace,
		Account:   "machine-diagnosis",
		Verb:      "list",
		Resource:  "pods",
	}
	account.Await(t, true)

	token, err := w.Kube.CoreV1().ServiceAccounts(w.ProviderNamespace).CreateToken(t.Context(), account.Account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)

	kubeconfig, err := harness.Lab().Provider.Kubeconfig(token.Status.Token, w.ProviderNamespace)
	require.NoError(t, err)

	file := filepath.Join(folder, "kubeconfig")
	require.NoError(t, os.WriteFile(file, kubeconfig, 0o600))

	return file
}

// printer returns a disk whose boot sector prints a text on the first serial port each second.
func printer(text string) []byte {
	const size, signature, address = 1 << 20, 510, 0x7c00

	code := []byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0x8e, 0xd0, // mov ss, ax
		0xbc, 0x00, 0x7c, // mov sp, 0x7c00
		0xfc, // cld
		0xfb, // sti
		// again:
		0xbe, 0x21, address >> 8, // mov si, text
		// next:
		0xac,       // lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x06, // jz pause
		0xba, 0xf8, 0x03, // mov dx, 0x3f8: the first serial port
		0xee,       // out dx, al
		0xeb, 0xf5, // jmp next
		// pause:
		0xb9, 0x12, 0x00, // mov cx, 18: the timer interrupts 18 times a second
		// wait:
		0xf4,       // hlt
		0xe2, 0xfd, // loop wait
		0xeb, 0xea, // jmp again
	}

	disk := make([]byte, size)
	copy(disk, code)
	copy(disk[len(code):signature], text)
	disk[signature] = 0x55
	disk[signature+1] = 0xaa

	return disk
}
