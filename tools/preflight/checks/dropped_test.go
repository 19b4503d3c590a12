// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferences(t *testing.T) {
	t.Parallel()

	const sent = `{"metadata":{"labels":{"a":"b"}},"spec":{"runStrategy":"Always",
		"dataVolumeTemplates":[{"metadata":{"name":"one"},"spec":{"storage":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1024Mi"}}}}}],
		"template":{"spec":{"terminationGracePeriodSeconds":60,
			"networks":[{"name":"default","pod":{}}],
			"domain":{"cpu":{"cores":2},"memory":{"guest":"1Gi"},"devices":{"rng":{},
				"disks":[{"name":"root","disk":{"bus":"virtio"}},{"name":"data","disk":{"bus":"virtio"}}],
				"interfaces":[{"name":"default","bridge":{}}]}}}}}}`

	tests := map[string]struct {
		reason   string
		sent     string
		answered string
		dropped  []string
		changed  []string
	}{
		"Same": {reason: "nothing happened", answered: sent},
		"Added": {
			reason: "defaults are none of ours",
			answered: `{"metadata":{"name":"x","labels":{"a":"b","c":"d"},"annotations":{"e":"f"}},"spec":{"runStrategy":"Always",
			"dataVolumeTemplates":[{"metadata":{"name":"one"},"spec":{"storage":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}],
			"template":{"spec":{"terminationGracePeriodSeconds":60,"architecture":"amd64",
				"networks":[{"name":"default","pod":{}}],
				"domain":{"cpu":{"cores":2,"sockets":1},"memory":{"guest":"1024Mi"},"machine":{"type":"q35"},"devices":{"rng":{},
					"disks":[{"name":"data","disk":{"bus":"virtio"}},{"name":"root","disk":{"bus":"virtio"}},{"name":"more","disk":{}}],
					"interfaces":[{"name":"default","bridge":{},"model":"virtio"}]}}}}}}`,
		},
		"Dropped": {
			reason: "values, empty objects, entries of lists and labels",
			answered: `{"spec":{
			"dataVolumeTemplates":[{"metadata":{"name":"one"},"spec":{"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}],
			"template":{"spec":{"networks":[{"name":"default"}],
				"domain":{"cpu":{},"memory":{"guest":"1Gi"},"devices":{
					"disks":[{"name":"root","disk":{}}],
					"interfaces":[{"name":"default"}]}}}}}}`,
			dropped: []string{
				"metadata.labels", "spec.dataVolumeTemplates[0].spec.storage.accessModes", "spec.runStrategy",
				"spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.devices.disks[0].disk.bus",
				"spec.template.spec.domain.devices.disks[1]", "spec.template.spec.domain.devices.interfaces[0].bridge",
				"spec.template.spec.domain.devices.rng", "spec.template.spec.networks[0].pod", "spec.template.spec.terminationGracePeriodSeconds",
			},
		},
		"Changed": {
			reason: "another value is named too",
			answered: strings.NewReplacer(
				`"cores":2`, `"cores":4`, `"a":"b"`, `"a":"c"`, `"guest":"1Gi"`, `"guest":"2Gi"`).Replace(sent),
			changed: []string{"metadata.labels.a", "spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.memory.guest"},
		},
		"Inferred": {
			reason:   "KubeVirt writes what it has found",
			sent:     `{"spec":{"instancetype":{"inferFromVolume":"root"}}}`,
			answered: `{"spec":{"instancetype":{"name":"large","kind":"VirtualMachineInstancetype"}}}`,
		},
		"NotInferred": {
			reason:   "or forgets it",
			sent:     `{"spec":{"instancetype":{"inferFromVolume":"root"}}}`,
			answered: `{"spec":{"instancetype":{}}}`,
			dropped:  []string{"spec.instancetype.inferFromVolume"},
		},
		"Order": {
			reason:   "entries without names are a set",
			sent:     `{"spec":{"template":{"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}}}}`,
			answered: `{"spec":{"template":{"spec":{"tolerations":[{"key":"more"},{"key":"b","operator":"Exists"},{"key":"a"}]}}}}`,
		},
		"Missing": {
			reason:   "of which none may be missing",
			sent:     `{"spec":{"template":{"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}}}}`,
			answered: `{"spec":{"template":{"spec":{"tolerations":[{"key":"a"}]}}}}`,
			dropped:  []string{"spec.template.spec.tolerations[1]"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			found, err := differences(machine(t, cmp.Or(tc.sent, sent)), machine(t, tc.answered))
			require.NoError(t, err)

			var dropped, changed []string

			for _, d := range found {
				if d.dropped {
					dropped = append(dropped, d.path)
				} else {
					changed = append(changed, d.path)
				}
			}

			require.ElementsMatch(t, tc.dropped, dropped, tc.reason)
			require.ElementsMatch(t, tc.changed, changed, tc.reason)
		})
	}
}
