// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"strings"
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
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const validSpec = `{"region":"r","zone":"z","memory":{"guest":"1Gi"},
  "tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
  "rootVolume":{"source":{"pvc":{"name":"image"}},"storage":{}}}`

// recorder is a PluginSPI that records its inputs, and returns the configured error.
type recorder struct {
	create  *spi.CreateMachineInput
	observe *spi.ObserveMachineInput
	remove  *spi.DeleteMachineInput
	list    *spi.ListMachinesInput
	err     error
}

var machine = &spi.Machine{
	Name:       "m",
	ProviderID: "kubevirt://m",
	Addresses:  []corev1.NodeAddress{{Address: "10.0.0.1"}},
	Address:    spi.Address{Server: "https://provider.example.com", Namespace: "machines", Cluster: "c", Role: "node", UID: "vm-1"},
}

func (r *recorder) CreateMachine(_ context.Context, in *spi.CreateMachineInput) (*spi.Machine, error) {
	r.create = in

	return machine, r.err
}

func (r *recorder) InitializeMachine(_ context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	r.observe = in

	return machine, r.err
}

func (r *recorder) GetMachineStatus(_ context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	r.observe = in

	return machine, r.err
}

func (r *recorder) DeleteMachine(_ context.Context, in *spi.DeleteMachineInput) error {
	r.remove = in

	return r.err
}

func (r *recorder) ListMachines(_ context.Context, in *spi.ListMachinesInput) ([]spi.Machine, error) {
	r.list = in

	return []spi.Machine{*machine}, r.err
}

// answering is a PluginSPI that creates this machine.
type answering struct {
	recorder

	machine *spi.Machine
}

func (a *answering) CreateMachine(context.Context, *spi.CreateMachineInput) (*spi.Machine, error) {
	return a.machine, nil
}

// request holds the objects of all requests on a machine.
type request struct {
	machine *v1alpha1.Machine
	class   *v1alpha1.MachineClass
	secret  *corev1.Secret
}

func validRequest() *request {
	return &request{
		machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", Labels: map[string]string{"name": "md"}}},
		class: &v1alpha1.MachineClass{
			ObjectMeta:   metav1.ObjectMeta{Name: "class"},
			Provider:     "kubevirt",
			ProviderSpec: runtime.RawExtension{Raw: []byte(validSpec)},
			NodeTemplate: &v1alpha1.NodeTemplate{Architecture: ptr.To("arm64")},
		},
		secret: &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("k"), "userData": []byte("d")}},
	}
}

// call runs one method on the request and returns the code it ends with.
type call func(ctx context.Context, d driver.Driver, r *request) error

func calls() map[string]call {
	return map[string]call{
		"CreateMachine": func(ctx context.Context, d driver.Driver, r *request) error {
			_, err := d.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})

			return err
		},
		"InitializeMachine": func(ctx context.Context, d driver.Driver, r *request) error {
			_, err := d.InitializeMachine(ctx, &driver.InitializeMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})

			return err
		},
		"GetMachineStatus": func(ctx context.Context, d driver.Driver, r *request) error {
			_, err := d.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})

			return err
		},
		"DeleteMachine": func(ctx context.Context, d driver.Driver, r *request) error {
			_, err := d.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})

			return err
		},
		"ListMachines": func(ctx context.Context, d driver.Driver, r *request) error {
			_, err := d.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: r.class, Secret: r.secret})

			return err
		},
	}
}

func newPlugin(s spi.PluginSPI) *kubevirt.MachinePlugin {
	return kubevirt.New(s, kubevirt.Options{CreationTimeout: 20 * time.Minute})
}

func codeOf(t *testing.T, err error) codes.Code {
	t.Helper()

	if err == nil {
		return codes.OK
	}

	got, ok := status.FromError(err)
	require.True(t, ok, "undecodable for machine-controller-manager: %v", err)

	return got.Code()
}

// TestMachinePlugin_InvalidRequests calls every method with requests in which something is missing or
// wrong.
func TestMachinePlugin_InvalidRequests(t *testing.T) {
	t.Parallel()

	const ok, bad, none = codes.OK, codes.InvalidArgument, codes.NotFound

	tests := map[string]struct {
		reason string
		change func(*request)
		// want are the codes of CreateMachine, InitializeMachine and GetMachineStatus,
		// DeleteMachine, ListMachines.
		create, observe, remove, list codes.Code
	}{
		"Valid":               {"the base of all cases is valid", func(*request) {}, ok, ok, ok, ok},
		"NoMachine":           {"there is no Machine", func(r *request) { r.machine = nil }, bad, bad, bad, ok},
		"NoName":              {"there is no name", func(r *request) { r.machine.Name = "" }, bad, bad, bad, ok},
		"NoUID":               {"an orphan can be deleted, and never created", func(r *request) { r.machine.UID = "" }, bad, ok, ok, ok},
		"UnfitName":           {"no VM can have it: the Machine can be removed", func(r *request) { r.machine.Name = "a_b" }, bad, none, none, ok},
		"DottedName":          {"a machine of the predecessor: only creation needs a DNS label", func(r *request) { r.machine.Name = "a.b" }, bad, ok, ok, ok},
		"LongName":            {"a machine of the predecessor", func(r *request) { r.machine.Name = strings.Repeat("m", 200) }, bad, ok, ok, ok},
		"NoClass":             {"no class, no cluster", func(r *request) { r.class = nil }, bad, bad, bad, bad},
		"NoSecret":            {"no kubeconfig", func(r *request) { r.secret = nil }, bad, bad, bad, bad},
		"NoKubeconfig":        {"no kubeconfig", func(r *request) { delete(r.secret.Data, "kubeconfig") }, bad, bad, bad, bad},
		"NoUserData":          {"only creation needs it", func(r *request) { delete(r.secret.Data, "userData") }, bad, ok, ok, ok},
		"PredecessorProvider": {"the predecessor's classes are ours", func(r *request) { r.class.Provider = "kubevirtdriver//127.0.0.1:8080" }, ok, ok, ok, ok},
		"NoProvider":          {"an empty provider is ours", func(r *request) { r.class.Provider = "" }, ok, ok, ok, ok},
		"ForeignProvider":     {"listing must not end the pass for other classes", func(r *request) { r.class.Provider = "aws" }, bad, bad, bad, ok},
		"NoTags":              {"without tags, our machines cannot be identified", func(r *request) { r.class.ProviderSpec.Raw = []byte(`{}`) }, bad, bad, bad, ok},
		"TagsAreNoLabels": {"a selector would select another shoot's machines", func(r *request) {
			r.class.ProviderSpec.Raw = []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c ","mcm.gardener.cloud/role":"node"}}`)
		}, bad, bad, bad, ok},
		"NullSpec": {"the predecessor panicked", func(r *request) { r.class.ProviderSpec.Raw = []byte(`null`) }, bad, bad, bad, ok},
		"NoSpec":   {"nothing to decode", func(r *request) { r.class.ProviderSpec.Raw = nil }, bad, bad, bad, ok},
		"BrokenSpec": {"only creation needs more than the tags", func(r *request) {
			r.class.ProviderSpec.Raw = []byte(`{"nonsense":1,"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`)
		}, bad, ok, ok, ok},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			want := map[string]codes.Code{
				"CreateMachine": tc.create, "InitializeMachine": tc.observe, "GetMachineStatus": tc.observe,
				"DeleteMachine": tc.remove, "ListMachines": tc.list,
			}

			for method, do := range calls() {
				r := validRequest()
				tc.change(r)
				before := &request{machine: r.machine.DeepCopy(), class: r.class.DeepCopy(), secret: r.secret.DeepCopy()}

				require.Equal(t, want[method], codeOf(t, do(t.Context(), newPlugin(&recorder{}), r)), "%s: %s", method, tc.reason)
				require.Equal(t, before, r, "%s must not change what is in MCM's cache", method)
			}
		})
	}
}

func TestMachinePlugin_EmptyRequests(t *testing.T) {
	t.Parallel()

	p := newPlugin(&recorder{})
	_, create := p.CreateMachine(t.Context(), nil)
	_, initialize := p.InitializeMachine(t.Context(), nil)
	_, get := p.GetMachineStatus(t.Context(), nil)
	_, remove := p.DeleteMachine(t.Context(), nil)
	_, list := p.ListMachines(t.Context(), nil)
	_, volumes := p.GetVolumeIDs(t.Context(), nil)

	for _, err := range []error{create, initialize, get, remove, list, volumes} {
		require.Equal(t, codes.InvalidArgument, codeOf(t, err))
	}
}

func TestCreateMachine(t *testing.T) {
	t.Parallel()

	r := validRequest()
	spied := &recorder{}
	r.machine.Spec.NodeTemplateSpec.Labels = map[string]string{"worker.gardener.cloud/pool": "pool"}

	resp, err := newPlugin(spied).CreateMachine(t.Context(), &driver.CreateMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
	require.Equal(t, &driver.CreateMachineResponse{
		ProviderID:     "kubevirt://m",
		NodeName:       "m",
		Addresses:      machine.Addresses,
		LastKnownState: machine.Address.Encode(),
	}, resp)

	require.Equal(t, "m", spied.create.Name)
	require.Equal(t, "md", spied.create.Deployment)
	require.Equal(t, "pool", spied.create.WorkerPool)
	require.Equal(t, "arm64", spied.create.Architecture)
	require.Equal(t, spi.Identity{Cluster: "c", Role: "node"}, spied.create.Identity())
	require.Equal(t, []byte("k"), spied.create.Kubeconfig)
	require.Equal(t, []byte("d"), spied.create.UserData)
}

func TestGetMachineStatus(t *testing.T) {
	t.Parallel()

	r := validRequest()
	spied := &recorder{err: spi.ErrUninitialized}
	r.machine.Spec.ProviderID = "kubevirt://m"
	r.machine.DeletionTimestamp = ptr.To(metav1.Now())
	r.machine.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{MachineCreationTimeout: &metav1.Duration{Duration: time.Minute}}

	resp, err := newPlugin(spied).GetMachineStatus(t.Context(), &driver.GetMachineStatusRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.Equal(t, codes.Uninitialized, codeOf(t, err))
	require.NotNil(t, resp, "MCM dereferences the response that comes with Uninitialized")
	require.Equal(t, "kubevirt://m", resp.ProviderID)

	require.True(t, spied.observe.Deleting)
	require.True(t, spied.observe.HasProviderID)
	require.Equal(t, time.Minute, spied.observe.CreationTimeout)
}

func TestDeleteMachine_Orphan(t *testing.T) {
	t.Parallel()

	for uid, want := range map[string]bool{"u": false, "": true} {
		r := validRequest()
		spied := &recorder{}
		r.machine = &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}}

		if want {
			r.machine.UID = ""
		}

		_, err := newPlugin(spied).DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
		require.NoError(t, err, uid)
		require.Equal(t, want, spied.remove.Orphan, "the safety controller's made-up Machines have no UID")
	}
}

func TestListMachines_MissingTag(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{
		`null`, `{}`, `{"tags":{}}`, `{"tags":{"mcm.gardener.cloud/cluster":"c"}}`, `{"tags":{"mcm.gardener.cloud/role":"node"}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"","mcm.gardener.cloud/role":""}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"c ","mcm.gardener.cloud/role":"node"}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"=c","mcm.gardener.cloud/role":"node"}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"\tnode"}}`,
		`{"tags":{"mcm.gardener.cloud/cluster":"c,x!=y","mcm.gardener.cloud/role":"node"}}`,
	} {
		r := validRequest()
		spied := &recorder{}
		r.class.ProviderSpec.Raw = []byte(raw)

		resp, err := newPlugin(spied).ListMachines(t.Context(), &driver.ListMachinesRequest{MachineClass: r.class, Secret: r.secret})
		require.NoError(t, err, raw)
		require.Empty(t, resp.MachineList, raw)
		require.Nil(t, spied.list, raw)
	}
}

func TestListMachines(t *testing.T) {
	t.Parallel()

	r := validRequest()
	resp, err := newPlugin(&recorder{}).ListMachines(t.Context(), &driver.ListMachinesRequest{MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubevirt://m": "m"}, resp.MachineList)
}

func TestGetVolumeIDs(t *testing.T) {
	t.Parallel()

	resp, err := newPlugin(&recorder{}).GetVolumeIDs(t.Context(), &driver.GetVolumeIDsRequest{PVSpecs: []*corev1.PersistentVolumeSpec{
		nil,
		{},
		{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "other", VolumeHandle: "x"}}},
		{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.kubevirt.io", VolumeHandle: "pvc-1"}}},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"pvc-1"}, resp.VolumeIDs)
}
