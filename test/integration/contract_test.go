package integration

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
)

// transcript holds a driver's answers to the calls of one behaviour, in order: responses, codes and
// texts. The random names of machines and namespaces are replaced.
type transcript struct {
	shoot *shoot
	names []string
	lines []string
}

// anyUUID matches the UIDs of VirtualMachines in addresses.
var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// note records the response and the error of a call.
func (tr *transcript) note(m *machine, answer any, err error) {
	if !slices.Contains(tr.names, m.name()) {
		tr.names = append(tr.names, m.name())
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

func (tr *transcript) create(ctx context.Context, d driver.Driver, m *machine) codes.Code {
	answer, err := m.create(ctx, d)
	tr.note(m, answer, err)

	return codeOf(err)
}

func (tr *transcript) initialize(ctx context.Context, d driver.Driver, m *machine) codes.Code {
	answer, err := m.initialize(ctx, d)
	if answer != nil {
		answer.Addresses = nil
	}

	tr.note(m, answer, err)

	return codeOf(err)
}

func (tr *transcript) status(ctx context.Context, d driver.Driver, m *machine) codes.Code {
	answer, err := m.status(ctx, d)
	if answer != nil {
		answer.Addresses = nil
	}

	tr.note(m, answer, err)

	return codeOf(err)
}

func (tr *transcript) list(ctx context.Context, d driver.Driver, m *machine) codes.Code {
	answer, err := m.list(ctx, d)
	tr.note(m, answer, err)

	return codeOf(err)
}

func (tr *transcript) remove(ctx context.Context, d driver.Driver, m *machine) codes.Code {
	answer, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: m.machine, MachineClass: m.class, Secret: m.secret})
	tr.note(m, answer, err)

	return codeOf(err)
}

// behaviour is a property that machine controllers rely on.
type behaviour struct {
	reason   string
	settings settings
	show     func(t *testing.T, s *shoot, d driver.Driver, tr *transcript)
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
				everyWay(t, func(t *testing.T, newDriver func(settings) driver.Driver) {
					t.Helper()

					s := newShoot(t)
					tr := &transcript{shoot: s}
					b.show(t, s, newDriver(b.settings), tr)
					s.requireNothingLeft(t, "VirtualMachine foreign")

					mu.Lock()
					defer mu.Unlock()

					transcripts[t.Name()[strings.LastIndex(t.Name(), "/")+1:]] = tr.lines
				})
			})

			want := transcripts[ways()[0].name]
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
			reason: "a machine comes and goes; what was created is adopted, what is gone is deleted", settings: settings{grace: time.Minute},
			show: showLife,
		},
		"Addresses": {
			reason: "without a target cluster they tell where the machine is", settings: settings{grace: time.Minute, bootstrap: true},
			show: func(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.newMachine("zone-a", ephemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
				m.awaitScheduled(t, d)

				resp, err := m.status(t.Context(), d)
				require.NoError(t, err)
				require.Equal(t, corev1.NodeInternalIP, resp.Addresses[0].Type)
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Unschedulable": {
			reason: "cluster-autoscaler backs off, and only for the driver's own ResourceExhausted", settings: settings{grace: time.Second},
			show: showUnschedulable,
		},
		"Foreign": {
			reason: "what is not ours is not touched", settings: settings{grace: time.Minute},
			show: func(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.newMachine("zone-a", ephemeralRoot)
				m.machine.Name = "foreign"
				s.haltedVM(t, m.name(), map[string]string{"mcm.gardener.cloud/cluster": "another", "mcm.gardener.cloud/role": "node"})

				require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
				require.Equal(t, codes.AlreadyExists, tr.create(t.Context(), d, m))
				require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
				require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)
			},
		},
		"Elsewhere": {
			reason: "what is not visible is not deleted", settings: settings{grace: time.Minute}, show: showElsewhere,
		},
		"Moved": {
			reason: "the record of a machine that was moved comes before its deletion", settings: settings{grace: time.Minute}, show: showMoved,
		},
		"LongNames": {
			reason: "the predecessor's machines are observed and deleted; only creation needs a DNS label", settings: settings{grace: time.Minute},
			show: showLongNames,
		},
		"Blocked": {
			reason: "the text names what blocks a deletion", settings: settings{grace: time.Minute, deleteWait: 2 * time.Second},
			show: func(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.newMachine("zone-x", ephemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
				s.requireBlocked(t, m, d)
				require.Equal(t, codes.Aborted, tr.create(t.Context(), d, m))

				s.setFinalizers(t, m.name())
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Orphans": {
			reason:   "one sighting does not suffice",
			settings: settings{grace: time.Minute, clock: clocktesting.NewFakeClock(time.Now())},
			show: func(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.newMachine("zone-x", ephemeralRoot)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

				uid := m.machine.UID
				m.machine.UID = ""
				require.Equal(t, codes.Aborted, codeOf(m.remove(t.Context(), d)))
				require.Nil(t, s.vm(t, m.name()).DeletionTimestamp)

				m.machine.UID = uid
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Refused":     {reason: "all that is wrong is said at once, in the users' terms", settings: settings{grace: time.Minute}, show: showRefusals},
		"Credentials": {reason: "the provider cluster decides", settings: settings{grace: time.Minute}, show: showCredentials},
		"UserData": {
			reason: "it arrives as it is, and is not small", settings: settings{grace: time.Minute},
			show: func(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
				t.Helper()

				m := s.newMachine("zone-x", ephemeralRoot)
				m.secret.Data["userData"] = incompressible(700 << 10)
				require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

				got, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.name()+"-userdata", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, m.secret.Data["userData"], got.Data["userdata"])
				require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
			},
		},
		"Volumes": {reason: "a drain waits for them", settings: settings{grace: time.Minute}, show: showVolumes},
	}
}

func showLife(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.newMachine("zone-a", ephemeralRoot)
	require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

	first := s.vm(t, m.name())

	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))
	require.Equal(t, first.UID, s.vm(t, m.name()).UID, "one machine, one VM")

	m.machine.Spec.ProviderID = "kubevirt://" + m.name()
	m.awaitScheduled(t, d)
	require.Equal(t, codes.OK, tr.initialize(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.status(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	s.requireGone(t, m.name())
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
	require.Equal(t, codes.OK, tr.list(t.Context(), d, m))
	require.Equal(t, codes.NotFound, tr.status(t.Context(), d, m))
}

// showUnschedulable omits texts with a count of nodes, because other tests add nodes.
func showUnschedulable(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.newMachine("zone-x", ephemeralRoot)
	require.Equal(t, codes.OK, tr.create(t.Context(), d, m))

	eventually(t, "the zone without nodes is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.status(ctx, d)
		require.Equal(t, codes.Uninitialized, codeOf(err), "only InitializeMachine reports what is wrong")
		require.NotNil(t, resp, "machine-controller-manager dereferences it")
		require.Equal(t, "kubevirt://"+m.name(), resp.ProviderID)

		_, err = m.initialize(ctx, d)
		if codeOf(err) == codes.OK {
			return false, nil
		}

		require.Equal(t, codes.ResourceExhausted, codeOf(err))
		require.ErrorContains(t, err, "Unschedulable: 0/")

		return true, nil
	})
	require.Equal(t, codes.OK, tr.remove(t.Context(), d, m))
}

func showRefusals(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	for _, spec := range []string{
		`{"nonsense":1,"cpu":{"cores":"<many>"},"zone":null}`,
		`{"virtualMachineTemplate":{"spec":{"template":{"spec":{"evictionStrategy":"Sometimes"}}}}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"ü [a] ]["}}`,
	} {
		m := s.newMachine("zone-a", ephemeralRoot)
		m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, spec)
		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m), spec)
		tr.remove(t.Context(), d, m) // The machine refused by KubeVirt has left a Secret.
	}

	for _, incomplete := range []func(*machine){
		func(m *machine) { m.machine.UID = "" },
		func(m *machine) { m.machine.Name = "not.a.label" },
		func(m *machine) { m.class.Provider = "aws" },
		func(m *machine) { m.class.ProviderSpec.Raw = nil },
		func(m *machine) { m.secret.Data = nil },
		func(m *machine) { m.secret = nil },
		func(m *machine) { m.class = nil },
	} {
		m := s.newMachine("zone-a", ephemeralRoot)
		incomplete(m)
		require.Equal(t, codes.InvalidArgument, tr.create(t.Context(), d, m))

		for _, call := range []func(context.Context, driver.Driver, *machine) codes.Code{tr.initialize, tr.status, tr.list, tr.remove} {
			call(t.Context(), d, m)
		}
	}
}

func showCredentials(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
	t.Helper()

	m := s.newMachine("zone-a", ephemeralRoot)

	config, err := clientcmd.Load(s.ProviderKubeconfig)
	require.NoError(t, err)

	for _, user := range config.AuthInfos {
		user.Token = "revoked"
	}

	m.secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	require.NoError(t, err)
	require.Equal(t, codes.Unauthenticated, tr.create(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.status(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.list(t.Context(), d, m))
	require.Equal(t, codes.Unauthenticated, tr.remove(t.Context(), d, m))

	config, err = clientcmd.Load(s.ProviderKubeconfig)
	require.NoError(t, err)

	s.expectDenials("the driver has no rights in other namespaces")

	config.Contexts[config.CurrentContext].Namespace = "kube-system"
	m.secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	require.NoError(t, err)
	require.Equal(t, codes.PermissionDenied, tr.create(t.Context(), d, m))
	require.Equal(t, codes.PermissionDenied, tr.list(t.Context(), d, m))
}

func showVolumes(t *testing.T, s *shoot, d driver.Driver, tr *transcript) {
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
		tr.note(s.newMachine("zone-a", ephemeralRoot), answer, err)
	}
}
