// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// programRules are the assumptions of the CSI driver 27b52aa2 (csi), which does not run in the lab, since its module is
// not served: each rule is checked on the objects of a machine.
var programRules = []struct {
	rule, source string
	holds        func(*testing.T, *machineObjects)
}{
	{
		"the node plugin finds the machine by the provider ID and this annotation", "csi: cmd/kubevirt-csi-driver/kubevirt-csi-driver.go:206",
		func(t *testing.T, m *machineObjects) {
			t.Helper()
			require.Equal(t, m.vmi.Namespace, m.node.Annotations["cluster.x-k8s.io/cluster-namespace"])
		},
	},
	{
		"the driver refuses volumes without its labels, which therefore never change", "csi: pkg/kubevirt/client.go:154",
		func(t *testing.T, m *machineObjects) {
			t.Helper()
			require.Equal(t, "kubevirt.provider.extensions.gardener.cloud/cluster=shoot--dev--control", flagOf(m.csi, "--infra-cluster-labels"))
		},
	},
	{
		"the prefix of volumes is the same in the driver and the provisioner, and volume names have at most 63 characters", "csi: pkg/kubevirt/client.go:154; KubeVirt: pkg/storage/admitters/disks.go:293",
		func(t *testing.T, m *machineObjects) {
			t.Helper()
			require.Empty(t, flagOf(m.csi, "--volume-prefix"), "default pvc")
			require.Empty(t, flagOf(m.csi, "--volume-name-prefix"), "default pvc")
		},
	},
	{
		"the driver waits two minutes; its sidecars wait longer", "csi: pkg/service/controller.go:396",
		func(t *testing.T, m *machineObjects) {
			t.Helper()

			for _, c := range m.csi.Spec.Template.Spec.Containers[1:5] {
				require.Contains(t, c.Args, "--timeout=3m", c.Name)
			}
		},
	},
	{
		"KubeVirt attaches volumes at runtime with this feature gate", "csi: pkg/kubevirt/client.go:205; KubeVirt v1.7: pkg/virt-api/rest/volumes.go:67",
		func(t *testing.T, m *machineObjects) {
			t.Helper()
			require.Contains(t, m.gates, "HotplugVolumes")
		},
	},
}

// machineObjects are the objects of a machine and of the programs.
type machineObjects struct {
	vmi   *kubevirtv1.VirtualMachineInstance
	node  *corev1.Node
	csi   *appsv1.Deployment
	gates []string
}

func requireRules(t *testing.T, shoot *seed.Botanist) {
	t.Helper()
	requireReadyNodes(t, shoot, 1)

	m := &machineObjects{
		vmi:  &kubevirtv1.VirtualMachineInstance{},
		node: &corev1.Node{},
		csi:  deployment(t, shoot, "csi-driver-controller"),
	}
	name := onlyMachine(t, shoot).Name
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: shoot.ProviderNamespace, Name: name}, m.vmi))

	// machine-controller-manager copies labels and annotations some time after the Node is Ready.
	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKey{Name: name}, m.node)

		return err == nil && m.node.Annotations[machineutils.LastAppliedALTAnnotation] != "", "annotations of the Node"
	})

	list := &kubevirtv1.KubeVirtList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), list))
	require.Len(t, list.Items, 1)

	if developer := list.Items[0].Spec.Configuration.DeveloperConfiguration; developer != nil {
		m.gates = developer.FeatureGates
	}

	for _, rule := range programRules {
		t.Run(rule.rule, func(t *testing.T) { rule.holds(t, m) })
	}
}

// flagOf returns the value of a flag in any container of a Deployment.
func flagOf(d *appsv1.Deployment, flag string) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, arg := range slices.Concat(c.Command, c.Args) {
			if value, found := strings.CutPrefix(arg, flag+"="); found {
				return value
			}
		}
	}

	return ""
}
