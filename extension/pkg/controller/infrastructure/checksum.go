// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// knownNetworks returns the networks of the last reconciliation, by name. On the seed to which a control plane has
// moved, only the state has them; an older version of the extension wrote only the status.
func knownNetworks(status *api.InfrastructureStatus, state *api.InfrastructureState) map[string]api.NetworkState {
	known := map[string]api.NetworkState{}
	for _, n := range status.Networks {
		known[n.Name] = api.NetworkState{Name: n.Name, SHA: n.SHA}
	}

	for _, n := range state.Networks {
		known[n.Name] = n
	}

	return known
}

// checksumOf returns the checksum of a network for the status, and adds it to the state. A new checksum replaces all
// machines: the one of the last reconciliation is kept while the content is the same, whatever the white space and
// the order of the fields are.
func (f *flow) checksumOf(name, config string) string {
	n := api.NetworkState{Name: name, SHA: checksum(config), ContentSHA: checksum(canonical(config))}
	if known := f.known[name]; known.ContentSHA == n.ContentSHA {
		n.SHA = known.SHA
	}

	f.found = append(f.found, n)

	return n.SHA
}

// checksum returns the SHA-256 checksum of a CNI configuration, as the archived extension wrote it.
func checksum(config string) string {
	sum := sha256.Sum256([]byte(config))

	return hex.EncodeToString(sum[:])
}

// canonical returns JSON with sorted fields and without white space. A text that is not JSON remains as it is.
func canonical(config string) string {
	var content any

	decoder := json.NewDecoder(bytes.NewBufferString(config))
	decoder.UseNumber() // Large numbers must not lose digits.

	if decoder.Decode(&content) != nil || decoder.More() {
		return config
	}

	sorted, err := json.Marshal(content)
	if err != nil {
		return config
	}

	return string(sorted)
}
