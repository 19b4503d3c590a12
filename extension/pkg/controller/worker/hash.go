// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"fmt"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// rolling contains the settings that replace the machines of a pool when they change, in addition
// to those in Gardener's own hash: Kubernetes version, machine type, image, root volume and
// certificates. New fields need omitempty: otherwise an update of the extension replaces all
// machines.
type rolling struct {
	// Zone is the zone of the class, whose name has only its index: if zones are removed or
	// reordered, machines move to their new zone, except those of pools with in-place updates.
	Zone string `json:"zone"`
	// PodBinding is the binding of the pod network, except for a bridge.
	PodBinding    string              `json:"podBinding,omitempty"`
	Networks      []api.NetworkStatus `json:"networks,omitempty"`
	DataVolumes   []rollingVolume     `json:"dataVolumes,omitempty"`
	RootEncrypted bool                `json:"rootEncrypted,omitempty"`
	// Storage is the root volume of a pool that uses the storage of the machine type. Gardener's hash
	// has only that of the pool.
	Storage     *rollingVolume     `json:"storage,omitempty"`
	MachineType rollingMachineType `json:"machineType"`
	Config      api.WorkerConfig   `json:"config"`
}

type rollingVolume struct {
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
	Size      string `json:"size"`
	Encrypted bool   `json:"encrypted,omitempty"`
}

// rollingMachineType is the shape of a machine type. An operator who changes it replaces machines.
type rollingMachineType struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`

	api.MachineType `json:",inline"`
}

// hashOf returns the suffix of the name of a pool's class in a zone. A pool with in-place updates keeps
// its virtual machines: its hash contains only the settings that Gardener updates in place.
func (d *delegate) hashOf(p *pool, zone string) (string, error) {
	content, err := canonicalJSON(d.rollingOf(p, zone))
	if err != nil {
		return "", fmt.Errorf("hash worker pool %s: %w", p.Name, err)
	}

	return worker.WorkerPoolHash(p.WorkerPool, d.cluster, []string{content}, nil)
}

func (d *delegate) rollingOf(p *pool, zone string) rolling {
	config := p.Config
	config.TypeMeta = metav1.TypeMeta{}
	config.NodeTemplate = nil

	r := rolling{
		Zone:        zone,
		PodBinding:  ptr.Deref(d.infrastructure.PodNetwork, api.PodNetwork{}).Binding,
		Networks:    d.infrastructure.Networks,
		Config:      config,
		MachineType: rollingMachineType{CPU: p.Type.CPU.String(), Memory: p.Type.Memory.String(), MachineType: p.TypeConfig},
	}

	if p.Volume != nil {
		r.RootEncrypted = ptr.Deref(p.Volume.Encrypted, false)
	} else {
		r.Storage = &rollingVolume{Type: ptr.Deref(p.Root.Class, ""), Size: p.Root.Size.String()}
	}

	for i, v := range p.DataVolumes {
		r.DataVolumes = append(r.DataVolumes, rollingVolume{
			Name:      v.Name,
			Type:      ptr.Deref(v.Type, ""),
			Size:      p.Data[i].Size.String(),
			Encrypted: ptr.Deref(v.Encrypted, false),
		})
	}

	return r
}

// canonicalJSON returns JSON with sorted fields: the order of fields in a manifest does not replace
// machines.
func canonicalJSON(content any) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", err
	}

	var sorted any
	if err := json.Unmarshal(raw, &sorted); err != nil {
		return "", err
	}

	raw, err = json.Marshal(sorted)

	return string(raw), err
}
