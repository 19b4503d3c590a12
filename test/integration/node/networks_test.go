// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// lan is a network of one of the bridges of all nodes, with a few addresses.
type lan struct {
	bridge string
	prefix string // of the addresses
}

// The networks of the tests: one of the shoot's own, and one that several shoots share.
var (
	tenantNetwork = lan{bridge: node.Bridges()[0], prefix: "10.98.1."}
	sharedNetwork = lan{bridge: node.Bridges()[1], prefix: "10.98.2."}
)

// The first and the last address of a network.
const firstAddress, lastAddress = 11, 16

// config returns the network's configuration of CNI. All nodes mount the folder of volumes: the addresses are unique among them.
func (l lan) config(name string) string {
	return fmt.Sprintf(`{"cniVersion":"0.4.0","name":%q,"type":"bridge","bridge":%q,"mtu":%d,"ipam":{"type":"host-local","dataDir":%q,
		"ranges":[[{"subnet":"%s0/24","rangeStart":"%s%d","rangeEnd":"%s%d"}]]}}`,
		name, l.bridge, node.BridgeMTU, node.VolumesOnNodes+"/addresses", l.prefix, l.prefix, firstAddress, l.prefix, lastAddress)
}

// greetNeighbors returns the commands of a guest that greets all addresses of the networks, and answers with its name. It reports its own
// addresses, and who has answered where.
func greetNeighbors(networks ...lan) string {
	var addresses []string

	for _, network := range networks {
		for i := firstAddress; i <= lastAddress; i++ {
			addresses = append(addresses, fmt.Sprint(network.prefix, i))
		}
	}

	return fmt.Sprintf(`
  [ -e /www ] || { mkdir /www; hostname > /www/index.html; httpd -h /www; }
  ip -4 -o addr | sed -n 's/.*: \(eth[0-9]\) *inet \([0-9.]*\).*/address \1 \2/p'
  for address in %s; do
    (name=$(wget -q -T 2 -O - "http://$address/") && echo "met $name at $address") &
  done
  wait
`, strings.Join(addresses, " "))
}

// TestNetworks_Multus runs two machines with a network of their shoot and a shared one beside the pod network, which is masqueraded. The guests
// reach each other in both networks, from different nodes and, after a live migration, on the same one.
func TestNetworks_Multus(t *testing.T) {
	first := newMachine(t, looping(greetNeighbors(tenantNetwork, sharedNetwork)), func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return harness.MergeFields(t, linuxSpec(t, s), fmt.Sprintf(`{"networks":[{"pod":{},"masquerade":{}},{"name":%q},{"name":%q}]}`,
			createNetwork(t, s.ProviderNamespace, s.Namespace+"-lan", tenantNetwork),
			createNetwork(t, metav1.NamespaceDefault, s.Namespace+"-shared", sharedNetwork)))
	})
	first.recordStates(t)

	source := first.awaitRunning(t)
	second := first.sibling(t)
	require.NotEqual(t, source, second.awaitRunning(t), "KubeVirt spreads the machines of a pool")

	mutual := func() {
		for _, network := range []lan{tenantNetwork, sharedNetwork} {
			first.awaitMeeting(t, second, network)
			second.awaitMeeting(t, first, network)
		}

		first.requireGreetingFromOutside(t)
	}
	mutual()

	boot := first.guestBoot(t)
	first.migrate(t)
	mutual()
	require.Equal(t, boot, first.guestBoot(t), "the guest has not booted again")
	first.AwaitEnd(t)
}

// TestNetworks_PrimaryMultus runs two machines without pod network. A live migration keeps the address of a guest, which its new pod does
// not have.
func TestNetworks_PrimaryMultus(t *testing.T) {
	first := newMachine(t, looping(greetNeighbors(tenantNetwork)), func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return harness.MergeFields(t, linuxSpec(t, s), fmt.Sprintf(`{"networks":[{"name":%q,"default":true}]}`,
			createNetwork(t, s.ProviderNamespace, s.Namespace+"-lan", tenantNetwork)))
	})
	first.recordStates(t)
	first.awaitRunning(t)

	second := first.sibling(t)
	second.awaitRunning(t)

	address := second.awaitMeeting(t, first, tenantNetwork)
	first.migrate(t)
	require.Equal(t, address, second.awaitMeeting(t, first, tenantNetwork))
	first.awaitMeeting(t, second, tenantNetwork)
	first.AwaitEnd(t)
}

// TestNetworks_PodBridge runs a machine with the driver's default binding: the guest has the address of its pod, and cannot migrate.
func TestNetworks_PodBridge(t *testing.T) {
	w := newMachine(t, looping(greetNeighbors()), func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return harness.MergeFields(t, linuxSpec(t, s), `{"networks":[{"pod":{}}]}`)
	})
	w.awaitRunning(t)

	address := w.awaitAddress(t)
	w.awaitConsole(t, "address eth0 "+address)
	w.requireGreetingFromOutside(t)
	guests.AwaitObstacle(t, w.Shoot, w.machine.Name, guests.BridgeObstacle)
	w.AwaitEnd(t)
}

// TestNetworks_Missing requires that diagnose names a network that does not exist, and that the machine runs when it does.
func TestNetworks_Missing(t *testing.T) {
	name := ""
	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		name = s.Namespace + "-lan"

		return harness.MergeFields(t, linuxSpec(t, s), fmt.Sprintf(`{"networks":[{"pod":{},"masquerade":{}},{"name":%q}]}`, name))
	})
	found := w.victim().AwaitCause(t, "NetworkNotFound")
	require.Contains(t, found.Cause.Message, name)
	createNetwork(t, w.ProviderNamespace, name, tenantNetwork)
	w.awaitRunning(t)
	w.AwaitEnd(t)
}

// createNetwork creates a network, and returns its name with the namespace.
func createNetwork(t *testing.T, namespace, name string, network lan) string {
	t.Helper()

	client, err := dynamic.NewForConfig(harness.Lab().Provider.Config())
	require.NoError(t, err)

	networks := client.Resource(schema.GroupVersionResource{
		Group:    "k8s.cni.cncf.io",
		Version:  "v1",
		Resource: "network-attachment-definitions",
	}).Namespace(namespace)

	_, err = networks.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1",
		"kind":       "NetworkAttachmentDefinition",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"config": network.config(name)},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = networks.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })

	return namespace + "/" + name
}

// awaitMeeting waits until the guest reaches the other one in a network from now on, and returns the address.
func (w *worker) awaitMeeting(t *testing.T, other *worker, network lan) (address string) {
	t.Helper()

	from := w.awaitCount(t, w.awaitCount(t, 1)+1)
	greeting := "met " + other.machine.Name + " at "
	harness.Eventually(t, w.machine.Name+" has "+greeting+network.prefix, func(ctx context.Context) (bool, error) {
		console, err := w.consoleOf(ctx, w.machine.Name)
		if err != nil {
			return false, err
		}

		_, console, _ = strings.Cut(console, fmt.Sprintf("%04x", from))
		_, rest, found := strings.Cut(console, greeting+network.prefix)
		host, _, complete := strings.Cut(rest, "\n")
		address = network.prefix + strings.TrimSpace(host)

		return found && complete, nil
	})

	return address
}

// requireGreetingFromOutside reaches the guest at the address of its pod, from outside of the cluster.
func (w *worker) requireGreetingFromOutside(t *testing.T) {
	t.Helper()

	harness.Eventually(t, "the guest answers at the address of its pod", func(ctx context.Context) (bool, error) {
		address, err := w.address(ctx) // which changes with the pod
		if err != nil {
			return false, err
		}

		name, err := get(ctx, "http://"+address+"/")

		return name == w.machine.Name, err
	})
}

// client uses each connection once, and soon gives up: an address may be that of a pod that has ended.
var client = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// get returns what a server answers, without white space around it.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}

	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // read-only

	body, err := io.ReadAll(response.Body)

	return strings.TrimSpace(string(body)), err
}
