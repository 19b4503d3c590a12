// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutator completes objects of the garden cluster. The API server of the garden calls it as a
// webhook. It must not refuse objects for errors of the user: package validator does.
package mutator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// Name is the name of the webhook.
const Name = "mutator"

// New creates the webhook.
func New(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	return extensionswebhook.New(mgr, extensionswebhook.Args{
		Name: Name,
		Path: "/webhooks/mutate",
		Mutators: map[extensionswebhook.Mutator][]extensionswebhook.Type{
			&namespacedCloudProfile{}: {{Obj: &gardencorev1beta1.NamespacedCloudProfile{}, Subresource: ptr.To("status")}},
		},
		Target:         extensionswebhook.TargetSeed,
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1beta1constants.LabelExtensionProviderTypePrefix + kubevirt.Type: "true"}},
	})
}

// namespacedCloudProfile merges the machine images and the machine types of a project into the status of its
// NamespacedCloudProfile, from which Shoots use them. gardener-controller-manager copies the
// providerConfig of the CloudProfile there, but does not know its content.
type namespacedCloudProfile struct{}

var _ extensionswebhook.Mutator = (*namespacedCloudProfile)(nil)

// Mutate implements extensionswebhook.Mutator. It waits until the status is that of the current spec.
func (*namespacedCloudProfile) Mutate(_ context.Context, newObj, _ client.Object) error {
	profile, ok := newObj.(*gardencorev1beta1.NamespacedCloudProfile)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	merged := profile.Status.CloudProfileSpec.ProviderConfig
	if profile.DeletionTimestamp != nil || profile.Generation != profile.Status.ObservedGeneration || profile.Spec.ProviderConfig == nil || merged == nil {
		return nil
	}

	raw, err := mergeConfigs(merged.Raw, profile.Spec.ProviderConfig.Raw)
	if err != nil {
		return fmt.Errorf("merge the machine images and machine types into status.cloudProfileSpec.providerConfig: %w", err)
	}

	profile.Status.CloudProfileSpec.ProviderConfig = &runtime.RawExtension{Raw: raw}

	return nil
}

// images are the versions of an image in the JSON of a CloudProfileConfig. Versions, and other fields of
// the configuration, remain as they are, even if a newer version of the extension wrote them.
type images struct {
	Name     string            `json:"name"`
	Versions []json.RawMessage `json:"versions"`
}

// mergeConfigs adds the images and the machine types of a configuration to those of another one.
func mergeConfigs(into, from []byte) ([]byte, error) {
	config := map[string]json.RawMessage{}
	added := struct {
		MachineImages []images          `json:"machineImages"`
		MachineTypes  []json.RawMessage `json:"machineTypes"`
	}{}
	if err := errors.Join(json.Unmarshal(into, &config), json.Unmarshal(from, &added)); err != nil {
		return nil, err
	}

	var existing []images
	if list := config["machineImages"]; list != nil {
		if err := json.Unmarshal(list, &existing); err != nil {
			return nil, err
		}
	}

	raw, err := json.Marshal(merge(existing, added.MachineImages))
	if err != nil {
		return nil, err
	}

	config["machineImages"] = raw

	if err := mergeTypes(config, added.MachineTypes); err != nil {
		return nil, err
	}

	return json.Marshal(config)
}

// mergeTypes adds machine types to a configuration. One that it has already is replaced, as in merge.
func mergeTypes(config map[string]json.RawMessage, added []json.RawMessage) error {
	const key = "machineTypes"

	if len(added) == 0 {
		return nil
	}

	var existing []json.RawMessage
	if list := config[key]; list != nil {
		if err := json.Unmarshal(list, &existing); err != nil {
			return err
		}
	}

	replaced := map[string]bool{}
	for _, machineType := range added {
		replaced[nameOf(machineType)] = true
	}

	kept := slices.DeleteFunc(existing, func(known json.RawMessage) bool { return replaced[nameOf(known)] })

	raw, err := json.Marshal(append(kept, added...))
	config[key] = raw

	return err
}

func nameOf(raw json.RawMessage) string {
	var named struct {
		Name string `json:"name"`
	}

	_ = json.Unmarshal(raw, &named) // The validator reports errors.

	return named.Name
}

// merge adds images and versions to a list. A version that the list has already is replaced: the status
// may contain the result of an earlier merge.
func merge(existing, added []images) []images {
	indexes := map[string]int{}
	versions := map[int][]json.RawMessage{}
	for i, image := range slices.Backward(existing) {
		indexes[image.Name] = i
	}

	for _, image := range added {
		i, known := indexes[image.Name]
		if !known {
			i = len(existing)
			indexes[image.Name] = i
			existing = append(existing, images{Name: image.Name, Versions: []json.RawMessage{}})
		}

		versions[i] = append(versions[i], image.Versions...)
	}

	for i := range versions {
		existing[i].Versions = replace(existing[i].Versions, versions[i])
	}

	return existing
}

// replace returns a list with other versions, instead of those with the same keys.
func replace(existing, added []json.RawMessage) []json.RawMessage {
	replaced := map[key]bool{}
	for _, version := range added {
		replaced[keyOf(version)] = true
	}

	return append(slices.DeleteFunc(existing, func(known json.RawMessage) bool { return replaced[keyOf(known)] }), added...)
}

// key identifies a version of an image. A version with flavors has all architectures.
type key struct {
	version, architecture string
	hasFlavors            bool
}

func keyOf(raw json.RawMessage) key {
	// Only these fields are parsed: some quantities take hours to parse.
	var v struct {
		Version           string            `json:"version"`
		Architecture      string            `json:"architecture"`
		CapabilityFlavors []json.RawMessage `json:"capabilityFlavors"`
	}

	_ = json.Unmarshal(raw, &v) // The validator reports errors.

	if len(v.CapabilityFlavors) > 0 {
		return key{version: v.Version, hasFlavors: true}
	}

	return key{version: v.Version, architecture: cmp.Or(v.Architecture, v1beta1constants.ArchitectureAMD64)}
}
