package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// ephemeralRoot needs no storage, so that a machine costs little.
const ephemeralRoot = `{"containerDisk":{"image":"registry.example.com/worker:1"}}`

// annotate sets an annotation of the provider namespace, such as a latency.
func (s *shoot) annotate(t *testing.T, key, value string) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := s.kube.CoreV1().Namespaces().Patch(t.Context(), s.ProviderNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// TestMachineCreatedAndDeletedAtOnce creates and deletes a machine concurrently. If its objects
// remain, the next orphan pass deletes them.
func TestMachineCreatedAndDeletedAtOnce(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wait: time.Second})

	for range 10 {
		m := s.newMachine("zone-x", ephemeralRoot)

		var wg sync.WaitGroup

		wg.Go(func() { _, _ = m.create(t.Context(), d) }) // It may fail, depending on the order of events.
		wg.Go(func() { _ = m.remove(t.Context(), d) })
		wg.Wait()

		require.NoError(t, m.remove(t.Context(), d))
	}

	s.requireNothingLeft(t)
}

// TestListIsComplete makes the server return pages of ten, with foreign machines among the shoot's.
func TestListIsComplete(t *testing.T) {
	t.Parallel()

	pages := 0
	small := func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("limit") != "" {
				pages++

				q.Set("limit", "10")
				r = r.Clone(r.Context())
				r.URL.RawQuery = q.Encode()
			}

			return next.RoundTrip(r)
		})
	}

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wrap: small})
	m := s.newMachine("zone-a", ephemeralRoot)
	want := map[string]string{}

	const many = 25
	for i := range many {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		s.haltedVM(t, name, map[string]string{"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node"})
		want["kubevirt://"+name] = name
	}

	for name, labels := range map[string]map[string]string{
		"nobodys":     nil,
		"other-shoot": {"mcm.gardener.cloud/cluster": s.Namespace + "-b", "mcm.gardener.cloud/role": "node"},
		"other-role":  {"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "bastion"},
		"no-role":     {"mcm.gardener.cloud/cluster": s.Namespace},
	} {
		s.haltedVM(t, name, labels)
	}

	listed, err := m.list(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, want, listed)
	require.Equal(t, 3, pages)
}

// haltedVM creates a VirtualMachine that is never started.
func (s *shoot) haltedVM(t *testing.T, name string, labels map[string]string) {
	t.Helper()

	_, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestSidecarStopsInOrder stops the sidecar while it waits for a machine, and starts the next one.
func TestSidecarStopsInOrder(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	s.annotate(t, "sim.lab/import-latency", "10s")

	manager, err := lab.StartMachineControllerManager(t.Context(), s.Shoot)
	require.NoError(t, err)

	first, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar)
	require.NoError(t, err)

	failures := s.failures(t)

	s.applyExample(t)
	s.scale(t, "example-worker-z2", 0)

	eventually(t, "a VirtualMachine is there", func(ctx context.Context) (bool, error) {
		list, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) > 0, err
	})

	requireStopsInOrder(t, first)

	second, err := lab.StartSidecar(t.Context(), s.Shoot, sidecar)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, second.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	s.awaitRunning(t, 2)
	require.Empty(t, failures(), "an end in order is nobody's failure")
	s.awaitEnd(t)
}

// requireStopsInOrder tells a process to stop, and requires that it exits by itself, without an
// error. The benchmark measures how long that takes.
func requireStopsInOrder(t *testing.T, p *process.Process) {
	t.Helper()

	require.NoError(t, p.Signal(syscall.SIGTERM))
	eventually(t, p.Name()+" has ended", func(context.Context) (bool, error) { return p.Err() != nil, nil })
	require.ErrorContains(t, p.Err(), "exit status 0", "it ends by itself, in order")
}

// TestDeletionOfAnyMachine deletes machines in every state, with as much as possible of their
// classes and Secrets missing.
func TestDeletionOfAnyMachine(t *testing.T) {
	t.Parallel()

	d := newDriver(settings{grace: time.Minute})

	tests := map[string]struct {
		reason string
		root   string
		// template is the template of the VirtualMachineInstance.
		template string
		// left are objects that do not belong to the machine, and must stay.
		left []string
		// before changes the machine between its creation and its deletion.
		before func(t *testing.T, s *shoot, m *machine)
	}{
		"BrokenSpec": {
			reason: "only the tags count", root: ephemeralRoot,
			before: func(_ *testing.T, s *shoot, m *machine) {
				m.class.ProviderSpec.Raw = fmt.Appendf(nil,
					`{"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},"region":7,"rootVolume":[],"x":null}`, s.Namespace)
			},
		},
		"NoUserData": {
			reason: "nobody reads it", root: ephemeralRoot,
			before: func(_ *testing.T, _ *shoot, m *machine) { delete(m.secret.Data, "userData") },
		},
		"Importing": {
			reason: "nothing waits for the end of the import", root: importedRoot,
			before: func(*testing.T, *shoot, *machine) {},
		},
		"Running": {
			reason: "the guest shuts down", root: ephemeralRoot,
			before: func(t *testing.T, _ *shoot, m *machine) {
				t.Helper()
				m.awaitScheduled(t, d)
			},
		},
		"NeedsItsGracePeriod": {
			reason: "the wait is longer than the grace period", root: ephemeralRoot,
			template: `{"metadata":{"annotations":{"sim.lab/fault":"stuck-shutdown"}},"spec":{"terminationGracePeriodSeconds":10}}`,
			before: func(t *testing.T, _ *shoot, m *machine) {
				t.Helper()
				m.awaitScheduled(t, d)
			},
		},
		"DeletedBySomebodyElse": {
			reason: "it is waited for", root: ephemeralRoot,
			before: func(t *testing.T, s *shoot, m *machine) {
				t.Helper()
				m.awaitScheduled(t, d)
				require.NoError(t, s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Delete(t.Context(), m.name(), metav1.DeleteOptions{}))
			},
		},
		"GoneAlready": {
			reason: "its Secrets are left", root: ephemeralRoot,
			before: func(t *testing.T, s *shoot, m *machine) {
				t.Helper()
				require.NoError(t, s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Delete(t.Context(), m.name(), metav1.DeleteOptions{}))
				eventually(t, "the VirtualMachine is gone", func(ctx context.Context) (bool, error) {
					vms, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + m.name()})

					return err == nil && len(vms.Items) == 0, err
				})
			},
		},
		"HotPlugged": {
			reason: "a volume of the shoot's is attached to the running machine", root: ephemeralRoot,
			before: func(t *testing.T, s *shoot, m *machine) {
				t.Helper()
				s.importImage(t, "pvc-1")
				m.awaitScheduled(t, d)
				s.plug(t, m.name(), "pvc-1")
			},
			left: []string{"DataVolume pvc-1", "PersistentVolumeClaim pvc-1"},
		},
		"Evicting": {
			reason: "a drain of its host is under way", root: ephemeralRoot,
			before: func(t *testing.T, s *shoot, m *machine) {
				t.Helper()
				m.awaitScheduled(t, d)
				patch := []byte(`{"status":{"evacuationNodeName":"provider-a-0"}}`)
				_, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(t.Context(), m.name(), types.MergePatchType, patch, metav1.PatchOptions{})
				require.NoError(t, err)
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newShoot(t)

			m := s.newMachine("zone-a", tc.root)
			if tc.template != "" {
				m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, `{"virtualMachineTemplate":{"spec":{"template":`+tc.template+`}}}`)
			}

			_, err := m.create(t.Context(), d)
			require.NoError(t, err)
			tc.before(t, s, m)
			requireDeleted(t, m, d)
			s.requireNothingLeft(t, tc.left...)

			for _, name := range tc.left {
				left, err := s.left(t.Context())
				require.NoError(t, err)
				require.Contains(t, left, name)
			}
		})
	}
}

// plug attaches a claim to a running machine, as KubeVirt's CSI driver does. virt-handler's
// reaction is not simulated.
func (s *shoot) plug(t *testing.T, name, claim string) {
	t.Helper()

	path := fmt.Sprintf("/apis/subresources.kubevirt.io/v1/namespaces/%s/virtualmachineinstances/%s/addvolume", s.ProviderNamespace, name)
	eventually(t, "the volume is accepted", func(ctx context.Context) (bool, error) {
		err := s.kube.CoreV1().RESTClient().Put().AbsPath(path).Body(fmt.Appendf(nil,
			`{"name":%q,"disk":{"disk":{"bus":"scsi"}},"volumeSource":{"persistentVolumeClaim":{"claimName":%q,"hotpluggable":true}}}`, claim, claim)).
			Do(ctx).Error()

		return err == nil, nil // virt-api refuses it until the guest runs.
	})
	eventually(t, "the volume is the instance's", func(ctx context.Context) (bool, error) {
		instance, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		return slices.ContainsFunc(instance.Spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == claim }), nil
	})
}

// requireDeleted requires that one call suffices: any error would mark the Machine as failed.
func requireDeleted(t *testing.T, m *machine, d driver.Driver) {
	t.Helper()

	require.NoError(t, m.remove(t.Context(), d))

	_, err := m.status(t.Context(), d)
	require.Equal(t, codes.NotFound, codeOf(err))
}

// TestPredecessorsMachine lists and deletes a VirtualMachine of the driver's
// predecessor, with its Secret.
func TestPredecessorsMachine(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", ephemeralRoot)
	s.haltedVM(t, m.name(), map[string]string{
		"mcm.gardener.cloud/cluster": s.Namespace, "mcm.gardener.cloud/role": "node", "mcm.gardener.cloud/machineclass": "old",
		"kubevirt.io/vm": m.name(),
	})

	listed, err := m.list(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://" + m.name(): m.name()}, listed)
	requireDeleted(t, m, d)
	s.requireNothingLeft(t)
}
