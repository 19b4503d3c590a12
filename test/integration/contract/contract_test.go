// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// transcript holds a driver's answers to the calls of one behaviour, in order: responses, codes and
// texts. The random names of machines and namespaces are replaced.
type transcript struct {
	shoot *harness.Shoot
	names []string
	lines []string
}

// anyUUID matches the UIDs of VirtualMachines in addresses.
var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// note records the response and the error of a call.
func (tr *transcript) note(m *harness.Machine, answer any, err error) {
	if !slices.Contains(tr.names, m.Name()) {
		tr.names = append(tr.names, m.Name())
	}

	text := "nothing"
	if v := reflect.Indirect(reflect.ValueOf(answer)); v.IsValid() {
		text = fmt.Sprintf("%#v", v.Interface())
	}

	line := fmt.Sprintf("%s; %v", text, err)
	for i, name := range tr.names {
		line = strings.ReplaceAll(line, name, fmt.Sprintf("MACHINE%d", i))
	}

	line = anyUUID.ReplaceAllString(line, "UID")
	line = strings.ReplaceAll(line, tr.shoot.ProviderNamespace, "PROVIDER")
	tr.lines = append(tr.lines, strings.ReplaceAll(line, tr.shoot.Namespace, "CLUSTER"))
}

// The following methods make one call each and record its result, except for addresses, which
// arrive at unpredictable times.

func (tr *transcript) create(ctx context.Context, d driver.Driver, m *harness.Machine) codes.Code {
	answer, err := m.Create(ctx, d)
	tr.note(m, answer, err)

	return harness.CodeOf(err)
}

func (tr *transcript) initialize(ctx context.Context, d driver.Driver, m *harness.Machine) codes.Code {
	answer, err := m.Initialize(ctx, d)
	if answer != nil {
		answer.Addresses = nil
	}

	tr.note(m, answer, err)

	return harness.CodeOf(err)
}

func (tr *transcript) status(ctx context.Context, d driver.Driver, m *harness.Machine) codes.Code {
	answer, err := m.Status(ctx, d)
	if answer != nil {
		answer.Addresses = nil
	}

	tr.note(m, answer, err)

	return harness.CodeOf(err)
}

func (tr *transcript) list(ctx context.Context, d driver.Driver, m *harness.Machine) codes.Code {
	answer, err := m.List(ctx, d)
	tr.note(m, answer, err)

	return harness.CodeOf(err)
}

func (tr *transcript) remove(ctx context.Context, d driver.Driver, m *harness.Machine) codes.Code {
	answer, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: m.Machine, MachineClass: m.Class, Secret: m.Secret})
	tr.note(m, answer, err)

	return harness.CodeOf(err)
}

// behaviour is a property that machine controllers rely on.
type behaviour struct {
	reason   string
	settings harness.Settings
	show     func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript)
}

// TestContract runs every behaviour over every way to reach the driver, and
// requires identical answers.
func TestContract(t *testing.T) {
	t.Parallel()

	for name, b := range behaviours() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var (
				mu          sync.Mutex
				transcripts = map[string][]string{}
			)

			t.Run("Ways", func(t *testing.T) {
				harness.EveryWay(t, func(t *testing.T, newDriver func(harness.Settings) driver.Driver) {
					t.Helper()

					s := harness.NewShoot(t)
					tr := &transcript{shoot: s}
					b.show(t, s, newDriver(b.settings), tr)
					s.RequireNothingLeft(t, "VirtualMachine foreign")

					mu.Lock()
					defer mu.Unlock()

					transcripts[t.Name()[strings.LastIndex(t.Name(), "/")+1:]] = tr.lines
				})
			})

			want := transcripts[harness.Ways()[0].Name]
			require.NotEmpty(t, want)

			for way, lines := range transcripts {
				require.Equal(t, want, lines, "%s: %s", way, b.reason)
			}
		})
	}
}

func behaviours() map[string]behaviour {
	return map[string]behaviour{
		"Life": {
			reason:   "existing objects are adopted, and the deletion of missing objects succeeds",
			settings: harness.Settings{Grace: time.Minute},
			show:     showLife,
		},
		"Addresses": {
			reason:   "without a target cluster, only the addresses locate the machine",
			settings: harness.Settings{Grace: time.Minute, Bootstrap: true},
			show: func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.NewMachine("zone-a", harness.EphemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
				m.AwaitScheduled(t, d)

				resp, err := m.Status(t.Context(), d)
				require.NoError(t, err)
				require.Equal(t, corev1.NodeInternalIP, resp.Addresses[0].Type)
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Unschedulable": {
			reason:   "cluster-autoscaler backs off, and only for the driver's own ResourceExhausted",
			settings: harness.Settings{Grace: time.Second},
			show:     showUnschedulable,
		},
		"Foreign": {
			reason:   "objects of others are not changed",
			settings: harness.Settings{Grace: time.Minute},
			show: func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.NewMachine("zone-a", harness.EphemeralRoot)
				m.Machine.Name = "foreign"
				s.CreateHaltedVM(t, m.Name(), map[string]string{"mcm.gardener.cloud/cluster": "another", "mcm.gardener.cloud/role": "node"})

				require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
				require.Equal(t, codes.AlreadyExists, tr.create(t.Context(), d, m))
				require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
				require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)
			},
		},
		"Elsewhere": {
			reason:   "a VirtualMachine that the driver cannot see does not count as deleted",
			settings: harness.Settings{Grace: time.Minute},
			show:     showElsewhere,
		},
		"Moved": {
			reason:   "a moved machine is deleted only after its new address was recorded",
			settings: harness.Settings{Grace: time.Minute},
			show:     showMoved,
		},
		"LongNames": {
			reason:   "the predecessor's machines are observed and deleted; only creation needs a DNS label",
			settings: harness.Settings{Grace: time.Minute},
			show:     showLongNames,
		},
		"Blocked": {
			reason:   "the text names the blocker of a deletion",
			settings: harness.Settings{Grace: time.Minute, DeleteWait: 2 * time.Second},
			show: func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.NewMachine("zone-x", harness.EphemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
				requireBlocked(t, s, m, d)
				require.Equal(t, codes.Aborted, tr.create(t.Context(), d, m))

				s.SetFinalizers(t, m.Name())
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Orphans": {
			reason:   "one observation does not suffice",
			settings: harness.Settings{Grace: time.Minute, Clock: clocktesting.NewFakeClock(time.Now())},
			show: func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.NewMachine("zone-x", harness.EphemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

				uid := m.Machine.UID
				m.Machine.UID = ""
				require.Equal(t, codes.Aborted, harness.CodeOf(m.Remove(t.Context(), d)))
				require.Nil(t, s.VM(t, m.Name()).DeletionTimestamp)

				m.Machine.UID = uid
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Refused":     {reason: "one response reports all faults, in terms of the ProviderSpec", settings: harness.Settings{Grace: time.Minute}, show: showRefusals},
		"Credentials": {reason: "the provider cluster decides", settings: harness.Settings{Grace: time.Minute}, show: showCredentials},
		"UserData": {
			reason:   "large user data arrives unchanged",
			settings: harness.Settings{Grace: time.Minute},
			show: func(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.NewMachine("zone-x", harness.EphemeralRoot)
				m.Secret.Data["userData"] = harness.Incompressible(700 << 10)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

				got, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.Name()+"-userdata", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, m.Secret.Data["userData"], got.Data["userdata"])
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Volumes": {reason: "a drain waits for them", settings: harness.Settings{Grace: time.Minute}, show: showVolumes},
	}
}

func showLife(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

	first := s.VM(t, m.Name())

	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
	require.Equal(t, first.UID, s.VM(t, m.Name()).UID, "one machine, one VM")

	m.Machine.Spec.ProviderID = "kubevirt://" + m.Name()
	m.AwaitScheduled(t, d)
	require.Equal(t, codes.OK, tr.initialize(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.status(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.RequireGone(t, m.Name())
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
	require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
}

// showUnschedulable omits texts with a count of nodes, because other tests add nodes.
func showUnschedulable(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.NewMachine("zone-x", harness.EphemeralRoot)
	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

	harness.Eventually(t, "the zone without nodes is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.Status(ctx, d)
		require.Equal(t, codes.Uninitialized, harness.CodeOf(err), "only InitializeMachine reports failures")
		require.NotNil(t, resp, "machine-controller-manager dereferences it")
		require.Equal(t, "kubevirt://"+m.Name(), resp.ProviderID)

		_, err = m.Initialize(ctx, d)
		if harness.CodeOf(err) == codes.OK {
			return false, nil
		}

		require.Equal(t, codes.ResourceExhausted, harness.CodeOf(err))
		require.ErrorContains(t, err, "Unschedulable: 0/")

		return true, nil
	})
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
}

func showRefusals(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	for _, spec := range []string{
		`{"nonsense":1,"cpu":{"cores":"<many>"},"zone":null}`,
		`{"virtualMachineTemplate":{"spec":{"template":{"spec":{"evictionStrategy":"Sometimes"}}}}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"ü [a] ]["}}`,
	} {
		m := s.NewMachine("zone-a", harness.EphemeralRoot)
		m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, spec)
		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m), spec)
		tr.remove(t.Context(), d, m) // The machine refused by KubeVirt has left a Secret.
	}

	for _, incomplete := range []func(*harness.Machine){
		func(m *harness.Machine) { m.Machine.UID = "" },
		func(m *harness.Machine) { m.Machine.Name = "not.a.label" },
		func(m *harness.Machine) { m.Class.Provider = "aws" },
		func(m *harness.Machine) { m.Class.ProviderSpec.Raw = nil },
		func(m *harness.Machine) { m.Secret.Data = nil },
		func(m *harness.Machine) { m.Secret = nil },
		func(m *harness.Machine) { m.Class = nil },
	} {
		m := s.NewMachine("zone-a", harness.EphemeralRoot)
		incomplete(m)
		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m))

		for _, call := range []func(context.Context, driver.Driver, *harness.Machine) codes.Code{tr.initialize, tr.status, tr.list, tr.remove} {
			call(t.Context(), d, m)
		}
	}
}

func showCredentials(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.EphemeralRoot)

	config, err := clientcmd.Load(s.ProviderKubeconfig)
	require.NoError(t, err)

	for _, user := range config.AuthInfos {
		user.Token = "revoked"
	}

	m.Secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	require.NoError(t, err)
	require.Equal(t, codes.Unauthenticated, tr.create(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.status(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.list(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.remove(t.Context(), d, m))

	config, err = clientcmd.Load(s.ProviderKubeconfig)
	require.NoError(t, err)

	s.ExpectDenials("the driver has no permissions in other namespaces")

	config.Contexts[config.CurrentContext].Namespace = "kube-system"
	m.Secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	require.NoError(t, err)
	require.Equal(t, codes.PermissionDenied, tr.create(t.Context(), d, m))
	require.Equal(t, codes.PermissionDenied, tr.list(t.Context(), d, m))
}

func showVolumes(t *testing.T, s *harness.Shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	csi := func(name, handle string) *corev1.PersistentVolumeSpec {
		return &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: handle},
		}}
	}

	for _, specs := range [][]*corev1.PersistentVolumeSpec{
		nil,
		{nil, {}, csi("other", "x")},
		{csi("csi.kubevirt.io", "pvc-<1>"), csi("csi.kubevirt.io", "pvc-2")},
	} {
		answer, err := d.GetVolumeIDs(t.Context(), &driver.GetVolumeIDsRequest{PVSpecs: specs})
		require.NoError(t, err)
		tr.note(s.NewMachine("zone-a", harness.EphemeralRoot), answer, err)
	}
}
