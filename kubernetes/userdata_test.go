// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
)

// cloudConfig is the part of cloud-init's format that the example uses.
type cloudConfig struct {
	Hostname      string   `json:"hostname"`
	PackageUpdate bool     `json:"package_update"`
	Packages      []string `json:"packages"`
	WriteFiles    []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Encoding    string `json:"encoding"`
		Content     string `json:"content"`
	} `json:"write_files"`
	RunCmd [][]string `json:"runcmd"`
}

// TestManifests_ExampleUserData replaces the placeholders of the example's user data, as
// machine-controller-manager and docs/getting-started.md do, and checks the files with which a
// guest joins.
func TestManifests_ExampleUserData(t *testing.T) {
	t.Parallel()

	config, files := exampleUserData(t, strings.NewReplacer(
		"<<MACHINE_NAME>>", "worker-1", "<<BOOTSTRAP_TOKEN>>", "abcdef.0123456789abcdef",
		"API_SERVER", "https://api.example.com:6443", "CA_CERTIFICATE", base64.StdEncoding.EncodeToString([]byte("the CA")), "CLUSTER_DNS", "10.96.0.10"))

	require.Equal(t, "worker-1", config.Hostname)
	require.Equal(t, "the CA", files["/etc/kubernetes/pki/ca.crt"])

	kubeconfig, err := clientcmd.Load([]byte(files["/etc/kubernetes/bootstrap-kubeconfig"]))
	require.NoError(t, err)

	current := kubeconfig.Contexts[kubeconfig.CurrentContext]
	cluster := kubeconfig.Clusters[current.Cluster]
	require.Equal(t, "https://api.example.com:6443", cluster.Server)
	require.Equal(t, "the CA", files[cluster.CertificateAuthority], "one of the files")
	require.Equal(t, "abcdef.0123456789abcdef", kubeconfig.AuthInfos[current.AuthInfo].Token)

	var kubelet struct {
		ProviderID string   `json:"providerID"`
		ClusterDNS []string `json:"clusterDNS"`
	}

	require.NoError(t, yaml.Unmarshal([]byte(files["/etc/kubernetes/kubelet.yaml"]), &kubelet))
	require.Equal(t, providerid.Format("worker-1"), kubelet.ProviderID, "as the driver returns it")
	require.Equal(t, []string{"10.96.0.10"}, kubelet.ClusterDNS)

	unit := files["/etc/systemd/system/kubelet.service.d/10-join.conf"]
	require.Contains(t, unit, "--hostname-override=worker-1 ", "machine-controller-manager finds the Node by the Machine's name")

	for _, used := range []string{"/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/bootstrap-kubeconfig"} {
		require.Contains(t, unit, "="+used, "the unit uses it")
	}

	for _, command := range config.RunCmd {
		require.Contains(t, files, command[0], "the command is one of the files")
	}
}

// exampleUserData reads the example's user data strictly, and returns the files that it writes.
func exampleUserData(t *testing.T, values *strings.Replacer) (cloudConfig, map[string]string) {
	t.Helper()

	secrets := read(t, "example/userdata.yaml").secrets
	require.Len(t, secrets, 1)

	text := values.Replace(secrets[0].StringData[apiv1alpha1.SecretKeyUserData])
	require.True(t, strings.HasPrefix(text, "#cloud-config\n"))

	var config cloudConfig

	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &config))

	files := map[string]string{}

	for _, file := range config.WriteFiles {
		content := []byte(file.Content)

		if file.Encoding == "b64" {
			var err error

			content, err = base64.StdEncoding.DecodeString(file.Content)
			require.NoError(t, err)
		}

		files[file.Path] = string(content)
	}

	return config, files
}
