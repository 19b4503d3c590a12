// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestMachinePlugin_PassesRecordedAddress requires the recorded address in every call on an existing machine.
func TestMachinePlugin_PassesRecordedAddress(t *testing.T) {
	t.Parallel()

	r := validRequest()
	spied := &recorder{}
	r.machine.Spec.ProviderID = "kubevirt://m"
	r.machine.Annotations = map[string]string{spi.AnnotationAddress: machine.Address.Encode()}
	want := &spi.RecordedAddress{Address: machine.Address}

	for _, method := range []string{"GetMachineStatus", "InitializeMachine"} {
		spied.observe = nil
		require.NoError(t, calls()[method](t.Context(), newPlugin(spied), r))
		require.Equal(t, want, spied.observe.Recorded, method)
	}

	require.NoError(t, calls()["DeleteMachine"](t.Context(), newPlugin(spied), r))
	require.Equal(t, want, spied.remove.Recorded)

	r.machine.Annotations = nil
	r.machine.Status.LastKnownState = machine.Address.Encode()
	require.NoError(t, calls()["DeleteMachine"](t.Context(), newPlugin(spied), r))
	require.Equal(t, want, spied.remove.Recorded, "other machine controllers record it in the status")

	r.machine.Status.LastKnownState = "another driver's"
	require.NoError(t, calls()["DeleteMachine"](t.Context(), newPlugin(spied), r))
	require.Nil(t, spied.remove.Recorded)
	require.True(t, spied.remove.HasProviderID)
}

// TestDeleteMachine_MovedMachine requires the new address in the response, so that the caller records
// it before the VirtualMachine is deleted.
func TestDeleteMachine_MovedMachine(t *testing.T) {
	t.Parallel()

	r := validRequest()
	resp, err := newPlugin(&recorder{err: spi.Moved(machine.Address)}).DeleteMachine(t.Context(),
		&driver.DeleteMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.Equal(t, codes.Aborted, codeOf(t, err), "the call is repeated within seconds")
	require.Equal(t, &driver.DeleteMachineResponse{LastKnownState: machine.Address.Encode()}, resp)
}

// TestCreateMachine_LongServer omits a record that could not be decoded later.
func TestCreateMachine_LongServer(t *testing.T) {
	t.Parallel()

	long := *machine
	long.Address.Server += strings.Repeat("/x", 1000)

	r := validRequest()
	resp, err := newPlugin(&answering{machine: &long}).CreateMachine(t.Context(),
		&driver.CreateMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
	require.Empty(t, resp.LastKnownState)
}

// TestMissing_Metric checks the gauge after a refusal and after the next call.
func TestMissing_Metric(t *testing.T) {
	t.Parallel()

	r := validRequest()
	spied := &recorder{err: &spi.Error{Kind: spi.ErrAddressChanged, Message: "p", Remedy: "r"}}
	p := newPlugin(spied)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, p.RegisterMetrics(registry))

	missing := func() float64 {
		t.Helper()

		families, err := registry.Gather()
		require.NoError(t, err)

		for _, family := range families {
			if family.GetName() == "mcm_kubevirt_machines_missing_at_address" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}

		t.Fatal("the gauge must exist from the start")

		return 0
	}

	require.Zero(t, missing())

	for range 2 {
		require.Equal(t, codes.FailedPrecondition, codeOf(t, calls()["DeleteMachine"](t.Context(), p, r)))
		require.InDelta(t, 1, missing(), 0, "machines are counted, not calls")
	}

	spied.err = nil
	require.NoError(t, calls()["DeleteMachine"](t.Context(), p, r))
	require.Zero(t, missing())
}

// TestIsAbandoned_WithoutCredentials passes an abandoned Machine to the PluginSPI even if the
// credentials of its class are missing or refused: the PluginSPI then deletes nothing.
func TestIsAbandoned_WithoutCredentials(t *testing.T) {
	t.Parallel()

	const ok, bad = codes.OK, codes.InvalidArgument

	tests := map[string]struct {
		reason    string
		change    func(*request)
		held      kubevirt.Kubeconfigs
		kept, now codes.Code // before and after the Machine is abandoned
	}{
		"Usable":          {"the base of all cases is valid", func(*request) {}, nil, ok, ok},
		"NoSecret":        {"it was deleted with the provider cluster", func(r *request) { r.secret = nil }, nil, bad, ok},
		"NoKubeconfig":    {"its key was removed", func(r *request) { delete(r.secret.Data, "kubeconfig") }, nil, bad, ok},
		"NoTags":          {"the class was emptied", func(r *request) { r.class.ProviderSpec.Raw = []byte(`{}`) }, nil, bad, ok},
		"ForeignProvider": {"the class was edited", func(r *request) { r.class.Provider = "aws" }, nil, bad, ok},
		"NotHeld":         {"the driver's own file was removed", func(r *request) { r.secret = nil }, kubeconfigs{}, codes.FailedPrecondition, ok},
		"NoName":          {"there is no such Machine", func(r *request) { r.machine.Name = "" }, nil, bad, bad},
		"NoClass":         {"machine-controller-manager sends none", func(r *request) { r.class = nil }, nil, bad, bad},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := validRequest()
			d := kubevirt.New(&recorder{}, kubevirt.Options{Kubeconfigs: tc.held})
			tc.change(r)

			for _, method := range []string{"GetMachineStatus", "InitializeMachine", "DeleteMachine"} {
				r.machine.Annotations = nil
				require.Equal(t, tc.kept, codeOf(t, calls()[method](t.Context(), d, r)), "%s: %s", method, tc.reason)

				r.machine.Annotations = map[string]string{spi.AnnotationAddress: spi.AddressAbandoned}
				require.Equal(t, tc.now, codeOf(t, calls()[method](t.Context(), d, r)), "%s: %s", method, tc.reason)
			}
		})
	}
}
