// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestMachineCreatedAndDeletedAtOnce creates and deletes a machine concurrently. If its objects
// remain, the next orphan pass deletes them.
func TestMachineCreatedAndDeletedAtOnce(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Wait: time.Second})

	for range 10 {
		m := s.NewMachine("zone-x", harness.EphemeralRoot)

		var wg sync.WaitGroup

		wg.Go(func() { _, _ = m.Create(t.Context(), d) }) // It may fail, depending on the order of events.
		wg.Go(func() { _ = m.Remove(t.Context(), d) })
		wg.Wait()

		require.NoError(t, m.Remove(t.Context(), d))
	}

	s.RequireNothingLeft(t)
}

// TestListIsComplete makes the server return pages of ten, with foreign machines among the shoot's.
func TestListIsComplete(t *testing.T) {
	t.Parallel()

	pages := 0
	small := func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("limit") != "" {
				pages++

				q.Set("limit", "10")
				r = r.Clone(r.Context())
				r.URL.RawQuery = q.Encode()
			}

			return next.RoundTrip(r)
		})
	}

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute, Wrap: small})
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	want := map[string]string{}

	const many = 25
	for i := range many {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		s.CreateHaltedVM(t, name, map[string]string{"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node"})
		want["kubevirt://"+name] = name
	}

	for name, labels := range map[string]map[string]string{
		"nobodys":     nil,
		"other-shoot": {"mcm.gardener.cloud/cluster": s.Namespace + "-b", "mcm.gardener.cloud/role": "node"},
		"other-role":  {"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "bastion"},
		"no-role":     {"mcm.gardener.cloud/cluster": s.Namespace},
	} {
		s.CreateHaltedVM(t, name, labels)
	}

	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, want, listed)
	require.Equal(t, 3, pages)
}

// TestSidecarStopsInOrder stops the sidecar while it waits for a machine, and starts the next one.
func TestSidecarStopsInOrder(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.Annotate(t, "sim.lab/import-latency", "10s")

	manager, err := harness.Lab().StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	first, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar())
	require.NoError(t, err)

	failures := s.Failures(t)

	s.ApplyExample(t)
	s.Scale(t, "example-worker-z2", 0)

	harness.Eventually(t, "a VirtualMachine is there", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) > 0, err
	})

	harness.RequireStopsInOrder(t, first)

	second, err := harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, second.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	s.AwaitRunning(t, 2)
	require.Empty(t, failures(), "no Machine may fail because the sidecar stops")
	s.AwaitEnd(t)
}

// TestDeletionOfAnyMachine deletes machines in every state, with as much as possible of their
// classes and Secrets missing.
func TestDeletionOfAnyMachine(t *testing.T) {
	t.Parallel()

	d := harness.NewDriver(harness.Settings{Grace: time.Minute})

	tests := map[string]struct {
		reason string
		root   string
		// template is the template of the VirtualMachineInstance.
		template string
		// left are objects that do not belong to the machine and must not be deleted.
		left []string
		// before changes the machine between its creation and its deletion.
		before func(t *testing.T, s *harness.Shoot, m *harness.Machine)
	}{
		"BrokenSpec": {
			reason: "only the tags count",
			root:   harness.EphemeralRoot,
			before: func(_ *testing.T, s *harness.Shoot, m *harness.Machine) {
				m.Class.ProviderSpec.Raw = fmt.Appendf(nil,
					`{"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},"region":7,"rootVolume":[],"x":null}`, s.Namespace)
			},
		},
		"NoUserData": {
			reason: "a deletion does not read the ProviderSpec",
			root:   harness.EphemeralRoot,
			before: func(_ *testing.T, _ *harness.Shoot, m *harness.Machine) { delete(m.Secret.Data, "userData") },
		},
		"Importing": {
			reason: "the deletion does not wait for the end of the import",
			root:   harness.ImportedRoot,
			before: func(*testing.T, *harness.Shoot, *harness.Machine) {},
		},
		"Running": {
			reason: "the guest shuts down",
			root:   harness.EphemeralRoot,
			before: func(t *testing.T, _ *harness.Shoot, m *harness.Machine) {
				t.Helper()
				m.AwaitScheduled(t, d)
			},
		},
		"NeedsItsGracePeriod": {
			reason:   "the wait is longer than the grace period",
			root:     harness.EphemeralRoot,
			template: `{"metadata":{"annotations":{"sim.lab/fault":"stuck-shutdown"}},"spec":{"terminationGracePeriodSeconds":10}}`,
			before: func(t *testing.T, _ *harness.Shoot, m *harness.Machine) {
				t.Helper()
				m.AwaitScheduled(t, d)
			},
		},
		"DeletedBySomebodyElse": {
			reason: "the deletion waits for the instance",
			root:   harness.EphemeralRoot,
			before: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
				t.Helper()
				m.AwaitScheduled(t, d)
				require.NoError(t, s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Delete(t.Context(), m.Name(), metav1.DeleteOptions{}))
			},
		},
		"GoneAlready": {
			reason: "only its Secrets are left",
			root:   harness.EphemeralRoot,
			before: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
				t.Helper()
				require.NoError(t, s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Delete(t.Context(), m.Name(), metav1.DeleteOptions{}))
				harness.Eventually(t, "the VirtualMachine is gone", func(ctx context.Context) (bool, error) {
					vms, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + m.Name()})

					return err == nil && len(vms.Items) == 0, err
				})
			},
		},
		"HotPlugged": {
			reason: "a volume of the shoot's is attached to the running machine",
			root:   harness.EphemeralRoot,
			before: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
				t.Helper()
				s.ImportImage(t, "pvc-1")
				m.AwaitScheduled(t, d)
				plug(t, s, m.Name(), "pvc-1")
			},
			left: []string{"DataVolume pvc-1", "PersistentVolumeClaim pvc-1"},
		},
		"Evicting": {
			reason: "a drain of its host is under way",
			root:   harness.EphemeralRoot,
			before: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
				t.Helper()
				m.AwaitScheduled(t, d)
				patch := []byte(`{"status":{"evacuationNodeName":"provider-a-0"}}`)
				_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(t.Context(), m.Name(), types.MergePatchType, patch, metav1.PatchOptions{})
				require.NoError(t, err)
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)

			m := s.NewMachine("zone-a", tc.root)
			if tc.template != "" {
				m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, `{"virtualMachineTemplate":{"spec":{"template":`+tc.template+`}}}`)
			}

			_, err := m.Create(t.Context(), d)
			require.NoError(t, err)
			tc.before(t, s, m)
			harness.RequireDeleted(t, m, d)
			s.RequireNothingLeft(t, tc.left...)

			for _, name := range tc.left {
				left, err := s.Leftovers(t.Context())
				require.NoError(t, err)
				require.Contains(t, left, name)
			}
		})
	}
}

// plug attaches a claim to a running machine, as KubeVirt's CSI driver does. virt-handler's
// reaction is not simulated.
func plug(t *testing.T, s *harness.Shoot, name, claim string) {
	t.Helper()

	path := fmt.Sprintf("/apis/subresources.kubevirt.io/v1/namespaces/%s/virtualmachineinstances/%s/addvolume", s.ProviderNamespace, name)
	harness.Eventually(t, "the volume is accepted", func(ctx context.Context) (bool, error) {
		err := s.Kube.CoreV1().RESTClient().Put().AbsPath(path).Body(fmt.Appendf(nil,
			`{"name":%q,"disk":{"disk":{"bus":"scsi"}},"volumeSource":{"persistentVolumeClaim":{"claimName":%q,"hotpluggable":true}}}`, claim, claim)).
			Do(ctx).Error()

		return err == nil, nil // virt-api refuses it until the guest runs.
	})
	harness.Eventually(t, "the volume is the instance's", func(ctx context.Context) (bool, error) {
		instance, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		return slices.ContainsFunc(instance.Spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == claim }), nil
	})
}

// TestPredecessorsMachine lists and deletes a VirtualMachine of the driver's
// predecessor, with its Secret.
func TestPredecessorsMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	s.CreateHaltedVM(t, m.Name(), map[string]string{
		"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node", "mcm.gardener.cloud/machineclass": "old",
		"kubevirt.io/vm": m.Name(),
	})

	listed, err := m.List(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://" + m.Name(): m.Name()}, listed)
	harness.RequireDeleted(t, m, d)
	s.RequireNothingLeft(t)
}
