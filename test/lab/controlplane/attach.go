// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// Attach returns a cluster that another process runs, from the kubeconfig of its administrator. It
// serves clients of the cluster, and cannot start or stop the cluster's processes.
func Attach(name, adminKubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("attach to cluster %s: %w", name, err)
	}
	return &Cluster{
		Name:            name,
		ServerURL:       config.Host,
		AdminKubeconfig: adminKubeconfig,
		dir:             filepath.Dir(adminKubeconfig),
		pki:             &pki{ca: &authority{pem: config.CAData}},
		identities:      map[string]identity{admin: {name: admin, token: config.BearerToken}},
	}, nil
}
