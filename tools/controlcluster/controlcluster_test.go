// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlcluster

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
)

// flagsOf returns the flags of a command line.
func flagsOf(t *testing.T, args ...string) *Flags {
	t.Helper()

	f := NewFlags()
	cmd := &cobra.Command{}
	f.AddTo(cmd)
	require.NoError(t, cmd.ParseFlags(args))

	return f
}

func TestControl(t *testing.T) {
	t.Parallel()

	file := commands.ControlKubeconfig(t, "https://control.example.com")

	found, err := flagsOf(t, "--kubeconfig", file).Control()
	require.NoError(t, err)
	require.Equal(t, "shoot", found.Namespace, "the kubeconfig's")

	found, err = flagsOf(t, "--kubeconfig", file, "-n", "other").Control()
	require.NoError(t, err)
	require.Equal(t, "other", found.Namespace, "the flag's")

	_, err = flagsOf(t, "--kubeconfig", "missing.yaml").Control()
	require.ErrorContains(t, err, "--kubeconfig")

	_, err = flagsOf(t, "--kubeconfig", file, "--request-timeout=soon").Control()
	require.ErrorContains(t, err, "--request-timeout")
}

func TestControl_Requests(t *testing.T) {
	t.Parallel()

	var agent, user string

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		user = r.Header.Get("Impersonate-User")

		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)

	found, err := flagsOf(t, "--kubeconfig", commands.ControlKubeconfig(t, "http://127.0.0.1:1"), "--server", server.URL, "--as=operator").Control()
	require.NoError(t, err)

	_, err = found.Machines.MachineClasses(found.Namespace).List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	require.Contains(t, agent, "mcm-kubevirt", "the control cluster's audit log tells who asked")
	require.Equal(t, "operator", user)
}

func TestFlags_Provider(t *testing.T) {
	t.Parallel()

	raw, err := flagsOf(t).Provider()
	require.NoError(t, err)
	require.Nil(t, raw, "the Secrets have it")

	path := filepath.Join(t.TempDir(), "provider.yaml")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))

	raw, err = flagsOf(t, "--provider-kubeconfig", path).Provider()
	require.NoError(t, err)
	require.Equal(t, "content", string(raw))

	_, err = flagsOf(t, "--provider-kubeconfig=missing.yaml").Provider()
	require.ErrorContains(t, err, "--provider-kubeconfig")
}

func TestSecretData(t *testing.T) {
	t.Parallel()

	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name}, Data: data}
	}
	cluster := &Cluster{Kubernetes: fake.NewClientset(
		secret("class", map[string][]byte{"userData": []byte("u"), "kubeconfig": []byte("old")}),
		secret("cloudprovider", map[string][]byte{"kubeconfig": []byte("new")}),
	)}
	class := &v1alpha1.MachineClass{
		SecretRef:            &corev1.SecretReference{Namespace: "shoot", Name: "class"},
		CredentialsSecretRef: &corev1.SecretReference{Namespace: "shoot", Name: "cloudprovider"},
	}

	data, err := cluster.SecretData(t.Context(), class)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"userData": []byte("u"), "kubeconfig": []byte("new")}, data, "the credentials' Secret wins")

	class.SecretRef.Name = "missing"
	_, err = cluster.SecretData(t.Context(), class)
	require.ErrorContains(t, err, "Secret shoot/missing")
}
