// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// bootLimit bounds the time from a Shoot to its Node, since an emulated guest boots for minutes, and several times as long on a busy machine.
const bootLimit = 40 * time.Minute

// TestShoot creates a Shoot as the guide does, but for its image: Debian boots on a real node, and its kubelet joins the shoot. Its own
// cloud-controller-manager initializes the Node, a client outside of the provider cluster reaches a pod through a load balancer, a user the worker
// through a bastion, and the drain of the provider node migrates the machine, which then answers in a network of the Shoot and in a shared one.
func TestShoot(t *testing.T) {
	shoot := newShoot(t)
	began := time.Now()

	uncordon := cordon(t, node.Names(2)[1:]) // load balancers lead to the first node
	require.NoError(t, shoot.Reconcile(t.Context()))
	uncordon()

	worker := awaitNode(t, shoot)
	t.Logf("Node %s is ready and initialized, %.0f s after its Shoot was created", worker.Name, time.Since(began).Seconds())

	instance := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: shoot.ProviderNamespace, Name: worker.Name}, instance))
	require.Equal(t, instance.Status.Interfaces[0].IP, addressOf(worker))
	require.Equal(t, "kubevirt://"+instance.Name, worker.Spec.ProviderID)
	require.Equal(t, node.Zone, worker.Labels[corev1.LabelTopologyZone])

	t.Run("LoadBalancer", func(t *testing.T) { requireLoadBalancer(t, worker) })
	t.Run("Bastion", func(t *testing.T) { requireBastion(t, shoot, worker) })
	t.Run("Drain", func(t *testing.T) { requireMigration(t, worker, instance) })
	t.Run("Networks", func(t *testing.T) { requireNetworks(t, instance) })
	t.Run("Deletion", func(t *testing.T) { requireNothingLeft(t, shoot) })
}

// newShoot returns the Shoot of the guide with its CloudProfile, for the image, the zone and the storage of the nodes.
func newShoot(t *testing.T) *seed.Botanist {
	t.Helper()

	profile := &gardencorev1beta1.CloudProfile{}
	require.NoError(t, theSeed.Read(seed.ExampleCloudProfile, profile))
	configure(t, profile)
	createSharedNetwork(t)

	machineType := slices.IndexFunc(profile.Spec.MachineTypes, func(m gardencorev1beta1.MachineType) bool { return m.Name == "small" })
	profile.Spec.MachineTypes[machineType].Memory = resource.MustParse("1Gi")
	profile.Spec.VolumeTypes[0].Class = "shared"
	profile.Spec.Regions[0] = gardencorev1beta1.Region{Name: node.Region, Zones: []gardencorev1beta1.AvailabilityZone{{Name: node.Zone}}}

	object := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, object))
	object.Name = "real"
	object.Spec.Region = node.Region

	object.Spec.Provider.InfrastructureConfig = infrastructure(t)

	pool := &object.Spec.Provider.Workers[0]
	pool.Zones = []string{node.Zone}
	pool.Minimum = 1
	pool.Maximum = 1
	pool.Volume.VolumeSize = "6Gi"
	pool.MachineControllerManagerSettings = &gardencorev1beta1.MachineControllerManagerSettings{
		MachineCreationTimeout: &metav1.Duration{Duration: bootLimit},
		MachineHealthTimeout:   &metav1.Duration{Duration: bootLimit},
	}

	shoot, err := theSeed.NewBotanist(t.Context(), object, profile, seed.AccountIn(object.Name))
	require.NoError(t, err)

	shoot.HasControlPlane = true
	shoot.UserData = userData(t)

	return shoot
}

// infrastructure returns the configuration of a Shoot whose machines can migrate, with a network of its own and a shared one.
func infrastructure(t *testing.T) *runtime.RawExtension {
	t.Helper()

	config := &v1alpha1.InfrastructureConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "InfrastructureConfig"},
		Networks: v1alpha1.NetworksConfig{
			Pod:            &v1alpha1.PodNetwork{Binding: v1alpha1.BindingMasquerade},
			TenantNetworks: []v1alpha1.TenantNetwork{{Name: tenantNetwork, Config: networkOn(0, tenantNetwork)}},
			SharedNetworks: []v1alpha1.SharedNetwork{{Namespace: metav1.NamespaceDefault, Name: sharedNetwork}},
		},
	}
	raw, err := json.Marshal(config)
	require.NoError(t, err)

	return &runtime.RawExtension{Raw: raw}
}

// configure serves the image of guests with kubelet in the nodes' network until the end of the test, as that of all machine images and bastions. It
// offers the shared network only.
func configure(t *testing.T, profile *gardencorev1beta1.CloudProfile) {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", node.Gateway+":0")
	require.NoError(t, err)

	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, theSeed.GuestImage()) }),
	}

	go func() { _ = server.Serve(listener) }()

	t.Cleanup(func() { _ = server.Close() })

	config := &v1alpha1.CloudProfileConfig{}
	require.NoError(t, json.Unmarshal(profile.Spec.ProviderConfig.Raw, config))
	config.SharedNetworks = []v1alpha1.OfferedNetwork{{Namespace: metav1.NamespaceDefault, Name: sharedNetwork}}
	config.Bastion = &v1alpha1.OfferedBastion{ContainerDisk: kubevirtv1.ContainerDiskSource{Image: theSeed.GuestDisk()}}

	for i := range config.MachineImages {
		for j := range config.MachineImages[i].Versions {
			config.MachineImages[i].Versions[j].SourceURL = "http://" + listener.Addr().String() + "/disk.qcow2"
		}
	}

	profile.Spec.ProviderConfig.Raw, err = json.Marshal(config)
	require.NoError(t, err)
}

// userData returns the user data of kubernetes/example for the shoot, in place of that of an extension for an operating system.
func userData(t *testing.T) string {
	t.Helper()

	text, err := os.ReadFile(theSeed.GuestUserData())
	require.NoError(t, err)

	const option = "--hostname-override=<<MACHINE_NAME>>"

	require.Contains(t, string(text), option)

	return strings.ReplaceAll(string(text), option, option+" --cloud-provider=external")
}

// awaitNode waits until the Node of the only machine is ready, and cloud-controller-manager has initialized it.
func awaitNode(t *testing.T, shoot *seed.Botanist) *corev1.Node {
	t.Helper()

	machines := &kubevirtv1.VirtualMachineList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), machines, client.InNamespace(shoot.ProviderNamespace)))
	require.Len(t, machines.Items, 1)

	found := &corev1.Node{}

	eventually(t, bootLimit, func(ctx context.Context) (bool, string) {
		if err := theSeed.Target.Get(ctx, client.ObjectKey{Name: machines.Items[0].Name}, found); err != nil {
			return false, err.Error()
		}

		return isReady(found) && len(found.Spec.Taints) == 0, fmt.Sprint(found.Status.Conditions, found.Spec.Taints)
	})

	return found
}

func isReady(found *corev1.Node) bool {
	return slices.ContainsFunc(found.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// cordon lets no machine start on some nodes, until uncordon is called.
func cordon(t *testing.T, names []string) (uncordon func()) {
	t.Helper()

	set := func(unschedulable bool) {
		for _, name := range names {
			patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable)
			require.NoError(t, theSeed.Provider.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, patch)))
		}
	}
	set(true)

	return func() { set(false) }
}

// addressOf returns the internal address of a Node.
func addressOf(found *corev1.Node) string {
	for _, address := range found.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}

	return ""
}

// requireNothingLeft deletes the shoot, and requires that neither the seed nor the provider cluster has objects of it.
func requireNothingLeft(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	require.NoError(t, shoot.Delete(t.Context()))
	eventually(t, time.Minute, func(ctx context.Context) (bool, string) {
		left, err := shoot.Leftovers(ctx)
		if err != nil {
			return false, err.Error()
		}

		return len(left) == 0, strings.Join(left, ", ")
	})
}

// eventually waits until a check holds. The check also describes what it saw.
func eventually(t *testing.T, atMost time.Duration, check func(context.Context) (bool, string)) {
	t.Helper()

	seen := ""
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, atMost, true, func(ctx context.Context) (bool, error) {
		done, now := check(ctx)
		if ctx.Err() == nil {
			seen = now
		}

		return done, nil
	})
	require.NoError(t, err, seen)
}
