// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
)

// Gardener's cluster-autoscaler decides by the objects that machine-controller-manager and the
// driver write. Its module is not usable as a dependency, so this file copies its rules from
// cluster-autoscaler/cloudprovider/mcm of github.com/gardener/autoscaler: from mcm_manager.go at
// 04c82f6e2c8f8da0ecb1dfaab1b3977ad8c7b658, and from mcm_cloud_provider.go at
// 2a3891b48d628b8f0f4834fde54a6f151d9d3559. Deprecated labels are omitted.

// Exhausted is cluster-autoscaler's rule to back off from a worker pool and try others
// (generateInstanceStatus). Only the code counts, and only while the Machine has no Node.
func Exhausted(m *v1alpha1.Machine) bool {
	last := m.Status.LastOperation

	return last.Type == v1alpha1.MachineOperationCreate && last.State == v1alpha1.MachineStateFailed &&
		last.ErrorCode == codes.ResourceExhausted.String()
}

// AwaitRecovery waits until the machine is scheduled. A failure may be seen until
// then, but not afterwards.
func (m *Machine) AwaitRecovery(t *testing.T, d driver.Driver) {
	t.Helper()

	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, Settled, true, func(ctx context.Context) (bool, error) {
		_, err := m.Status(ctx, d)

		switch CodeOf(err) {
		case codes.OK:
			return true, nil
		case codes.NotFound:
			_, _ = m.Create(ctx, d) // The next pass returns the same.
		case codes.Uninitialized:
			_, _ = m.Initialize(ctx, d)
		default:
		}

		return false, nil
	})
	require.NoError(t, err, "a failure must not be reported after its cause is gone")

	_, err = m.Initialize(t.Context(), d)
	require.NoError(t, err)
}

// DeleteClass marks the machine's MachineClass in the next requests as being deleted.
func (m *Machine) DeleteClass() {
	m.Class = m.Class.DeepCopy()
	m.Class.DeletionTimestamp = new(metav1.Now())
}

// EphemeralRoot needs no storage, so that a machine costs little.
const EphemeralRoot = `{"containerDisk":{"image":"registry.example.com/worker:1"}}`

// Machine is a Machine with its class and its Secret, as passed by
// machine-controller-manager to a driver.
type Machine struct {
	Machine *v1alpha1.Machine
	Class   *v1alpha1.MachineClass
	Secret  *corev1.Secret
}

// Spec returns the shoot's ProviderSpec as JSON, with the given root volume.
func (s *Shoot) Spec(zone, rootVolume string) []byte {
	return fmt.Appendf(nil, `{"region":"local","zone":%q,"cpu":{"cores":1},"memory":{"guest":"1Gi"},
		"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},"rootVolume":%s}`, zone, s.Namespace, rootVolume)
}

// NewMachine returns a machine of the shoot, with its own class, that no call has created yet.
func (s *Shoot) NewMachine(zone, rootVolume string) *Machine {
	return &Machine{
		Machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name:      s.Name + "-" + rand.String(5),
			Namespace: s.Namespace,
			UID:       uuid.NewUUID(),
			Labels:    map[string]string{"name": s.Name},
		}},
		Class: &v1alpha1.MachineClass{
			ObjectMeta:   metav1.ObjectMeta{Name: "class", Namespace: s.Namespace},
			Provider:     "kubevirt",
			ProviderSpec: runtime.RawExtension{Raw: s.Spec(zone, rootVolume)},
		},
		Secret: &corev1.Secret{Data: map[string][]byte{"kubeconfig": s.ProviderKubeconfig, "userData": []byte("#cloud-config\n# " + suite.UserDataCanary + "\n")}},
	}
}

// ImportedRoot is a root volume with an image from a registry.
const ImportedRoot = `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
	"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`

// Name returns the name of the Machine and its VirtualMachine.
func (m *Machine) Name() string { return m.Machine.Name }

// Create calls CreateMachine.
func (m *Machine) Create(ctx context.Context, d driver.Driver) (*driver.CreateMachineResponse, error) {
	return d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})
}

// Initialize calls InitializeMachine.
func (m *Machine) Initialize(ctx context.Context, d driver.Driver) (*driver.InitializeMachineResponse, error) {
	return d.InitializeMachine(ctx, &driver.InitializeMachineRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})
}

// Status calls GetMachineStatus.
func (m *Machine) Status(ctx context.Context, d driver.Driver) (*driver.GetMachineStatusResponse, error) {
	return d.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})
}

// Remove calls DeleteMachine.
func (m *Machine) Remove(ctx context.Context, d driver.Driver) error {
	_, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})

	return err
}

// List calls ListMachines, and returns the names of the machines by their provider IDs.
func (m *Machine) List(ctx context.Context, d driver.Driver) (map[string]string, error) {
	resp, err := d.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: m.Class, Secret: m.Secret})
	if err != nil {
		return nil, err
	}

	return resp.MachineList, nil
}

// AwaitScheduled calls the driver as machine-controller-manager does until
// GetMachineStatus returns OK.
func (m *Machine) AwaitScheduled(t *testing.T, d driver.Driver) {
	t.Helper()

	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, Settled, true, func(ctx context.Context) (bool, error) {
		_, err := m.Status(ctx, d)
		if err == nil {
			return true, nil
		}

		if CodeOf(err) != codes.Uninitialized {
			return false, err
		}

		_, err = m.Initialize(ctx, d)

		return false, err
	})
	require.NoError(t, err)
}

// CodeOf returns the machine code of a driver's error; 99 if it has none.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}

	got, ok := status.FromError(err)
	if !ok {
		return codes.Code(99)
	}

	return got.Code()
}
