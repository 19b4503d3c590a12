// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// choosePorts chooses the ports of the containers that run commands of the extension.
func (k *kubelet) choosePorts(ctx context.Context, deployment *appsv1.Deployment) error {
	if k.ports != nil {
		return nil
	}

	ports := map[string]string{}

	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name != "kubevirt-provider-proxy" && container.Name != cloudControllerContainer {
			continue
		}

		for _, arg := range container.Command {
			name, port, found := strings.Cut(arg, "=")
			if !found || !strings.HasSuffix(name, "port") {
				continue
			}

			free, err := process.FreePorts(ctx, 1)
			if err != nil {
				return err
			}

			ports[port] = strconv.Itoa(free[0])
		}
	}

	k.ports = ports

	return nil
}
