// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// InstallMultus applies Multus' manifests, except for its DaemonSet: its program is on the nodes. It returns the kubeconfig for that.
func (c *Cluster) InstallMultus(ctx context.Context) ([]byte, error) {
	data, err := os.ReadFile(filepath.Clean(c.options.Nodes.Multus))
	if err != nil {
		return nil, fmt.Errorf("read the manifests of Multus: %w", err)
	}
	const separator = "\n---\n"
	objects := []unstructured.Unstructured{clusterRoleBinding(multus, "multus", "User", multus)}
	for document := range strings.SplitSeq(string(data), separator) {
		o, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("read the manifests of Multus: %w", err)
		}
		if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "ClusterRole" {
			objects = append(objects, o)
		}
	}
	if err := c.apply(ctx, objects); err != nil {
		return nil, err
	}
	return kubeconfig(c.Name, c.nodeURL(), c.pki.ca.pem, c.identities[multus].token, "")
}
