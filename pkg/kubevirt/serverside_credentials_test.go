// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// kubeconfigs are server-side kubeconfigs by the names of their clusters.
type kubeconfigs map[string]string

func (d kubeconfigs) For(cluster string) ([]byte, error) {
	if kubeconfig, ok := d[cluster]; ok {
		return []byte(kubeconfig), nil
	}

	return nil, errors.New("nothing for " + cluster)
}

// TestMachinePlugin_ServerSideCredentials calls every method of a driver with server-side kubeconfigs.
func TestMachinePlugin_ServerSideCredentials(t *testing.T) {
	t.Parallel()

	const ok, bad, missing = codes.OK, codes.InvalidArgument, codes.FailedPrecondition

	tests := map[string]struct {
		reason string
		held   kubeconfigs
		change func(*request)
		// want are the codes of the methods on a machine, and of ListMachines.
		want, list codes.Code
	}{
		"Held":    {"the class's Secret needs no kubeconfig", kubeconfigs{"c": "k"}, func(r *request) { delete(r.secret.Data, "kubeconfig") }, ok, ok},
		"Brought": {"a kubeconfig in the request would not be used", kubeconfigs{"c": "k"}, func(*request) {}, bad, bad},
		"Missing": {"an operator has to add the kubeconfig", kubeconfigs{"d": "k"}, func(r *request) { delete(r.secret.Data, "kubeconfig") }, missing, missing},
		"Foreign": {"listing must not end the pass for other classes", kubeconfigs{"c": "k"}, func(r *request) { r.class.Provider = "aws" }, bad, ok},
		"NoTags":  {"there is no cluster to hold one for", kubeconfigs{"": "k"}, func(r *request) { r.class.ProviderSpec.Raw = []byte(`{}`) }, bad, ok},
		"NoClass": {"nor is here", kubeconfigs{"c": "k"}, func(r *request) { r.class = nil }, bad, bad},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for method, do := range calls() {
				r := validRequest()
				spied := &recorder{}
				tc.change(r)
				before := r.secret.DeepCopy()

				want := tc.want
				if method == "ListMachines" {
					want = tc.list
				}

				d := kubevirt.New(spied, kubevirt.Options{CreationTimeout: 20 * time.Minute, Kubeconfigs: tc.held})
				require.Equal(t, want, codeOf(t, do(t.Context(), d, r)), "%s: %s", method, tc.reason)
				require.Equal(t, before, r.secret, "%s must not change what is in MCM's cache", method)
			}
		})
	}

	r := validRequest()
	spied := &recorder{}
	delete(r.secret.Data, "kubeconfig")

	_, err := kubevirt.New(spied, kubevirt.Options{CreationTimeout: 20 * time.Minute, Kubeconfigs: kubeconfigs{"c": "held"}}).
		CreateMachine(t.Context(), &driver.CreateMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
	require.NoError(t, err)
	require.Equal(t, "held", string(spied.create.Kubeconfig))
	require.Equal(t, "d", string(spied.create.UserData))
}
