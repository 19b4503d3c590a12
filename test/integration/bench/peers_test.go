// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// peer is a set of controllers that turns machine objects into VirtualMachines of its own namespace.
type peer struct {
	*harness.Shoot

	name string
	// line is the connection of the controllers to the provider cluster.
	line      *harness.Line
	processes []*process.Process
	// named is the number of names that machines have had.
	named int

	prepare, remove func(ctx context.Context, machine string) error
	add             func(ctx context.Context, machine, zone string) error
	// left returns the number of machine objects.
	left func(ctx context.Context) (int, error)
	// seenRunning records when machine objects show that their Node is ready, seenExplained when they show that no node
	// has room, and seenGone when they are gone.
	seenRunning, seenExplained, seenGone func(t *testing.T) *seen
}

// Zones of the machines: one with room for thousands, and one without nodes.
const (
	largeZone = "zone-large"
	emptyZone = "zone-x"
)

var (
	largeZoneAdded sync.Once
	errLargeZone   error
)

// addLargeZone adds nodes with room for a thousand machines, which all tests share.
func addLargeZone(t *testing.T) {
	t.Helper()
	largeZoneAdded.Do(func() { errLargeZone = addLargeNodes(t.Context()) })
	require.NoError(t, errLargeZone)
}

// addLargeNodes adds two nodes: one has devices for a thousand machines.
func addLargeNodes(ctx context.Context) error {
	for i := range 2 {
		if err := harness.Lab().AddNode(ctx, kubelet.Node{
			Name:   fmt.Sprintf("provider-large-%d", i),
			Region: "local",
			Zone:   largeZone,
			CPU:    "2000",
			Memory: "4Ti",
			Pods:   thousand,
		}); err != nil {
			return err
		}
	}

	return nil
}

// newDriverPeer runs machine-controller-manager and the driver for a new shoot.
func newDriverPeer(t *testing.T) *peer {
	t.Helper()

	s := harness.NewShoot(t)
	p := &peer{Shoot: s, name: "this driver with machine-controller-manager", line: s.ProxyDistant(t)}
	s.ApplyCredentials(t)

	for _, zone := range []string{largeZone, emptyZone} {
		addClassNamed(t, s, s.Name+"-"+zone, smallSpec(t, s, zone, harness.EphemeralRoot))
	}

	// Machines are listed more often than by default, 15m, so that each rest includes a list: see eachPeriod. The other is four times
	// Gardener's creation timeout.
	running := s.StartControllers(t, "--machine-safety-orphan-vms-period=10m", "--machine-creation-timeout=80m")
	p.processes = []*process.Process{running.Manager, running.Sidecar}
	machines := s.MCM.MachineV1alpha1().Machines(s.Namespace)

	p.prepare = func(context.Context, string) error { return nil }
	p.add = func(ctx context.Context, machine, zone string) error {
		m := wantedMachines(s, machine)
		m.Spec.Class.Name += "-" + zone
		_, err := machines.Create(ctx, m, metav1.CreateOptions{})

		return err
	}
	p.remove = func(ctx context.Context, machine string) error {
		return machines.Delete(ctx, machine, metav1.DeleteOptions{})
	}
	p.left = func(ctx context.Context) (int, error) {
		list, err := machines.List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}

		return len(list.Items), nil
	}
	p.seenRunning = func(t *testing.T) *seen {
		t.Helper()

		return seenMachines(t, s, func(m *v1alpha1.Machine) bool { return m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning })
	}
	p.seenExplained = func(t *testing.T) *seen {
		t.Helper()

		return seenMachines(t, s, harness.Exhausted)
	}
	p.seenGone = func(t *testing.T) *seen {
		t.Helper()

		return firstGone(t, machines.Watch)
	}

	return p
}

// peerStarts start the peers by their names in tests. Cluster API is the last, because its types refer to its webhooks.
var peerStarts = [...]struct {
	name  string
	start func(*testing.T) *peer
}{
	{"driver", newDriverPeer},
	{"cluster-api", func(t *testing.T) *peer {
		t.Helper()

		return newClusterAPIPeer(t, clusterAPIWorkers)
	}},
}

// clusterAPIWorkers is the number of machines that each program of Cluster API reconciles at a time by default. That of
// machine-controller-manager is fifty.
const clusterAPIWorkers = 10

// newClusterAPIPeer runs Cluster API and its provider for KubeVirt for a new shoot, with all permissions, and with templates
// that yield the VirtualMachines of the driver.
func newClusterAPIPeer(t *testing.T, workers int) *peer {
	t.Helper()

	s := harness.NewShoot(t)
	templates := map[string]map[string]any{}

	for _, zone := range []string{largeZone, emptyZone} {
		templates[zone] = templateOf(t, s, zone)
	}

	provider := harness.Lab().Provider
	everything, err := provider.Kubeconfig(provider.Config().BearerToken, s.ProviderNamespace)
	require.NoError(t, err)

	s.ProviderKubeconfig = everything
	p := &peer{Shoot: s, line: s.ProxyDistant(t)}
	createJoinToken(t, s)

	c := startClusterAPI(t, s, workers)
	c.template = templates
	p.name = fmt.Sprintf("Cluster API %s with its provider for KubeVirt %s", c.binaries.CoreVersion, c.binaries.ProviderVersion)
	p.processes = c.processes
	p.prepare, p.add, p.remove, p.left = c.prepare, c.add, c.remove, c.left
	p.seenRunning = func(t *testing.T) *seen {
		t.Helper()

		return c.seen(t, clusterMachines, showsNodeReady)
	}
	p.seenExplained = func(t *testing.T) *seen {
		t.Helper()

		return c.seen(t, kubeVirtMachines, showsUnschedulable)
	}
	p.seenGone = func(t *testing.T) *seen {
		t.Helper()

		return firstGone(t, c.objects.Resource(clusterMachines).Namespace(c.Namespace).Watch)
	}

	return p
}

// templateOf lets the driver create a machine, and returns the spec of its VirtualMachine without the volume of its user
// data, which Cluster API's provider adds.
func templateOf(t *testing.T, s *harness.Shoot, zone string) map[string]any {
	t.Helper()

	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine(zone, harness.EphemeralRoot)
	m.Class.ProviderSpec.Raw = smallSpec(t, s, zone, harness.EphemeralRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	vm := s.VM(t, m.Name())
	require.NoError(t, m.Remove(t.Context(), d))

	own := vm.Spec.Template.Spec
	require.Len(t, own.Volumes, 2, "the root volume and the user data")

	userData := map[string]bool{}

	for _, v := range own.Volumes {
		userData[v.Name] = v.CloudInitNoCloud != nil || v.CloudInitConfigDrive != nil
	}

	vm.Spec.Template.Spec.Volumes = slices.DeleteFunc(own.Volumes, func(v kubevirtv1.Volume) bool { return userData[v.Name] })
	vm.Spec.Template.Spec.Domain.Devices.Disks = slices.DeleteFunc(own.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool { return userData[d.Name] })
	vm.Spec.Template.Spec.Domain.Firmware = nil // It identifies the machine.
	vm.Spec.Template.Spec.Hostname = ""

	raw, err := yaml.Marshal(vm.Spec)
	require.NoError(t, err)

	template := map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &template))

	return template
}

// joinToken is in the user data of all machines of Cluster API: it has no bootstrap provider here.
const joinToken = "capi00.0123456789abcdef"

func createJoinToken(t *testing.T, s *harness.Shoot) {
	t.Helper()

	_, err := s.Target.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + joinToken[:6]},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": joinToken[:6], "token-secret": joinToken[7:]},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}
