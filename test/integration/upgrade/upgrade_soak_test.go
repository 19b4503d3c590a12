// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package upgrade

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

const (
	zone = "zone-upgrade"
	// migratable is a network with which KubeVirt can live-migrate a machine.
	migratable = `{"networks":[{"pod":{},"masquerade":{}}]}`
)

// hosts are the hosts of the zone, in the order in which they are drained.
var hosts = []string{"upgrade-host-0", "upgrade-host-1"}

// TestSoakUpgradeOfKubeVirt upgrades KubeVirt in place under the machines of three pools: on
// ephemeral disks, on cloned disks, and migratable ones. The machines keep running, are listed,
// leave a drained host, and are deleted.
func TestSoakUpgradeOfKubeVirt(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	pools := map[string][]byte{
		s.Name + "-ephemeral":  s.Spec(zone, harness.EphemeralRoot),
		s.Name + "-cloned":     s.Spec(zone, harness.ImportedRoot),
		s.Name + "-migratable": harness.MergeFields(t, s.Spec(zone, harness.EphemeralRoot), migratable),
	}

	kubectl(t, "cordon", hosts[1])

	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		s.AddPool(t, pool, 1, pools[pool])
	}

	s.AwaitRunning(t, len(pools))
	kubectl(t, "uncordon", hosts[1])

	before := machines(t, s)
	require.Len(t, before, len(pools))

	require.NoError(t, harness.Lab().UpgradeKubeVirt(t.Context(), to, os.Stderr))
	require.Equal(t, to, harness.Lab().Binaries.KubeVirtVersion.Minor())
	awaitTakeover(t, s, len(pools))
	require.Equal(t, before, machines(t, s), "the machines keep running")

	listed, err := s.NewMachine(zone, harness.EphemeralRoot).List(t.Context(), harness.NewDriver(harness.Settings{Grace: time.Minute}))
	require.NoError(t, err)
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Values(listed)))

	kubectl(t, "drain", hosts[0], "--ignore-daemonsets", "--delete-emptydir-data",
		"--pod-selector=mcm.gardener.cloud/cluster="+s.Namespace, "--timeout="+(10*time.Minute).String())
	s.AwaitRunning(t, len(pools))

	after := machines(t, s)
	require.Len(t, after, len(pools))

	for name, uid := range before {
		if strings.HasPrefix(name, s.Name+"-migratable-") {
			require.Equal(t, uid, after[name], "%s is migrated", name)
		} else {
			require.NotContains(t, after, name, "it is replaced")
		}
	}

	s.AwaitEnd(t)
}

// awaitTakeover waits until the new virt-controller has reconciled all instances: it marks those whose launcher
// has the image of the old version.
func awaitTakeover(t *testing.T, s *harness.Shoot, want int) {
	t.Helper()

	harness.Eventually(t, "the new virt-controller has reconciled the instances", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx,
			metav1.ListOptions{LabelSelector: kubevirtv1.OutdatedLauncherImageLabel})

		return err == nil && len(list.Items) == want, err
	})
}

// newShoot returns a shoot with running controllers, in a zone of its own.
func newShoot(t *testing.T) *harness.Shoot {
	t.Helper()

	for _, host := range hosts {
		require.NoError(t, harness.Lab().AddNode(t.Context(), kubelet.Node{Name: host, Region: "local", Zone: zone, CPU: "32", Memory: "128Gi"}))
	}

	s := harness.NewShoot(t)
	_, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	s.RunControllers(t, "--evacuation", "--machine-drain-timeout=10m")
	s.ApplyCredentials(t)

	return s
}

// machines returns the UIDs of the running VirtualMachineInstances, by name.
func machines(t *testing.T, s *harness.Shoot) map[string]types.UID {
	t.Helper()

	found := map[string]types.UID{}

	list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for i := range list.Items {
		if list.Items[i].IsRunning() {
			found[list.Items[i].Name] = list.Items[i].UID
		}
	}

	return found
}

// kubectl runs a command as the provider cluster's administrator.
func kubectl(t *testing.T, args ...string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	args = append([]string{"--kubeconfig=" + harness.Lab().Provider.AdminKubeconfig, "--cache-dir=" + t.TempDir()}, args...)
	out, err := exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl, args...).CombinedOutput()
	require.NoError(t, err, fmt.Sprint(args, ": ", string(out)))
}
