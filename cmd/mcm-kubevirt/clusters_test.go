package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// controlKubeconfig returns a kubeconfig file for a test server, with the namespace shoot.
func controlKubeconfig(t *testing.T, server string) string {
	t.Helper()

	return write(t, "control.yaml", `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "`+server+`"}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: shoot}}]
users: [{name: u, user: {token: t0p-secret}}]
`)
}

func TestControl(t *testing.T) {
	t.Parallel()

	file := controlKubeconfig(t, "https://control.example.com")

	found, err := (&clusterFlags{kubeconfig: file}).control()
	require.NoError(t, err)
	require.Equal(t, "shoot", found.Namespace, "the kubeconfig's")

	found, err = (&clusterFlags{kubeconfig: file, namespace: "other"}).control()
	require.NoError(t, err)
	require.Equal(t, "other", found.Namespace, "the flag's")

	_, err = (&clusterFlags{kubeconfig: "missing.yaml"}).control()
	require.ErrorContains(t, err, "--kubeconfig")
}

func TestControlRequestsHaveAName(t *testing.T) {
	t.Parallel()

	var agent string

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()

		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)

	found, err := (&clusterFlags{kubeconfig: controlKubeconfig(t, server.URL)}).control()
	require.NoError(t, err)

	_, err = found.Machines.MachineClasses(found.Namespace).List(t.Context(), metav1.ListOptions{})
	require.Error(t, err)
	require.Contains(t, agent, "mcm-kubevirt", "the control cluster's audit log tells who asked")
}

func TestProviderKubeconfig(t *testing.T) {
	t.Parallel()

	raw, err := (&clusterFlags{}).provider()
	require.NoError(t, err)
	require.Nil(t, raw, "the Secrets have it")

	_, err = (&clusterFlags{providerKubeconfig: "missing.yaml"}).provider()
	require.ErrorContains(t, err, "--provider-kubeconfig")
}

func TestSecretData(t *testing.T) {
	t.Parallel()

	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: name}, Data: data}
	}
	cluster := &controlCluster{Kubernetes: fake.NewClientset(
		secret("class", map[string][]byte{"userData": []byte("u"), "kubeconfig": []byte("old")}),
		secret("cloudprovider", map[string][]byte{"kubeconfig": []byte("new")}),
	)}
	class := &v1alpha1.MachineClass{
		SecretRef:            &corev1.SecretReference{Namespace: "shoot", Name: "class"},
		CredentialsSecretRef: &corev1.SecretReference{Namespace: "shoot", Name: "cloudprovider"},
	}

	data, err := cluster.secretData(t.Context(), class)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"userData": []byte("u"), "kubeconfig": []byte("new")}, data, "the credentials' Secret wins")

	class.SecretRef.Name = "missing"
	_, err = cluster.secretData(t.Context(), class)
	require.ErrorContains(t, err, "Secret shoot/missing")
}
