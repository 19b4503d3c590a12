// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// enter makes the kubeconfigs in the state usable outside of an isolated lab: copies of them lead through its entrance, which admits clients to
// their API servers. That of the driver stays, since the driver runs inside.
func (st *state) enter(entrance *node.Entrance) error {
	if entrance == nil {
		return nil
	}
	files := []*string{&st.ProviderKubeconfig, &st.ControlKubeconfig, &st.TargetKubeconfig}
	if st.Shoot != nil {
		files = append(files, &st.Shoot.MCMKubeconfig, &st.Shoot.SidecarKubeconfig)
	}
	for _, file := range files {
		config, err := clientcmd.LoadFromFile(*file)
		if err != nil {
			return fmt.Errorf("read kubeconfig: %w", err)
		}
		for _, cluster := range config.Clusters {
			cluster.ProxyURL = entrance.URL
			if err := entrance.Admit(cluster.Server); err != nil {
				return err
			}
		}
		*file = strings.TrimSuffix(*file, outsideSuffix) + outsideSuffix
		if err := clientcmd.WriteToFile(*config, *file); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

// outsideSuffix is the end of the names of kubeconfigs that lead through the entrance.
const outsideSuffix = ".outside"
