// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// networksAPI is the API of Multus' networks, which virt-controller reads.
const networksAPI = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: network-attachment-definitions.k8s.cni.cncf.io
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {plural: network-attachment-definitions, kind: NetworkAttachmentDefinition}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const network = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage, namespace: %s}
spec: {config: '{"cniVersion": "0.3.1", "type": "bridge"}'}
`

// addNetwork adds the network "storage" to the shoot's namespace.
func addNetwork(t *testing.T, s *harness.Shoot) {
	t.Helper()
	applyToProvider(t, networksAPI)
	kubectlProvider(t, "", "wait", "--for=condition=Established", "--timeout=5m", "crd/network-attachment-definitions.k8s.cni.cncf.io")
	applyToProvider(t, fmt.Sprintf(network, s.ProviderNamespace))
}

func applyToProvider(t *testing.T, manifest string) {
	t.Helper()
	kubectlProvider(t, manifest, "apply", "--server-side", "-f", "-")
}

// kubectlProvider runs kubectl as the administrator of the provider cluster.
func kubectlProvider(t *testing.T, input string, args ...string) {
	t.Helper()

	args = append([]string{"--kubeconfig", harness.Lab().Provider.AdminKubeconfig}, args...)
	command := exec.CommandContext(t.Context(), harness.Lab().Binaries.Kubectl, args...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
}
