// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation validates a ProviderSpec before an object is created from it: the rules of the
// driver itself, and values that KubeVirt or CDI accepts, but with which a machine never starts.
// Everything else is left to the API servers of KubeVirt and CDI. pkg/machineclass calls it for
// CreateMachine, and mcm-kubevirt for its users. It is pure: it must not depend on a cluster.
package validation

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Options are the rules that an installation chooses.
type Options struct {
	// Template restricts virtualMachineTemplate.
	Template TemplatePolicy
	// Evacuation is set if the driver acts on evictionStrategy External (--evacuation). No other
	// component does.
	Evacuation bool
	// LogConsole is whether KubeVirt logs the serial consoles of new machines, unless their
	// virtualMachineTemplate says otherwise (--log-serial-console); nil to leave it to the provider
	// cluster. It does not affect the validation.
	LogConsole *bool
}

// root is the path that the field of every error begins with.
func root() *field.Path {
	return field.NewPath("providerSpec")
}

// Decode reads a ProviderSpec from JSON, strictly, and validates it. It returns all errors at once,
// each with its field and a remedy, and never quotes secret data. Without errors, the spec is
// complete and valid.
func Decode(raw []byte, options Options) (*v1alpha1.ProviderSpec, field.ErrorList) {
	spec, unreadable := v1alpha1.Decode(raw, root())
	if spec == nil {
		return nil, unreadable
	}

	// An unreadable field is missing in the spec; reporting it once is enough.
	errs := unreadable

	for _, err := range ValidateProviderSpec(spec, options) {
		if len(errs) >= v1alpha1.MaxErrors {
			break
		}

		if !slices.ContainsFunc(unreadable, func(reported *field.Error) bool { return within(err.Field, reported.Field) }) {
			errs = append(errs, err)
		}
	}

	return spec, errs
}

// within reports whether a field is another one, or inside it.
func within(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, outer+".") || strings.HasPrefix(inner, outer+"[")
}

// ValidateProviderSpec returns all errors of a decoded spec, each with its field and a remedy.
func ValidateProviderSpec(spec *v1alpha1.ProviderSpec, options Options) field.ErrorList {
	path := root()

	return slices.Concat(
		validateOneOf(path.Child("apiVersion"), cmp.Or(spec.APIVersion, v1alpha1.APIVersion), v1alpha1.APIVersion),
		validateOneOf(path.Child("kind"), cmp.Or(spec.Kind, v1alpha1.Kind), v1alpha1.Kind),
		ValidateTopology(spec.Region, path.Child("region")),
		ValidateTopology(spec.Zone, path.Child("zone")),
		validateTags(spec.Tags, path.Child("tags")),
		validateMemory(spec, path.Child("memory", "guest")),
		validateCPU(spec.CPU, path.Child("cpu")),
		validateResources(spec.Resources, path.Child("resources")),
		validateRootVolume(spec, path.Child("rootVolume")),
		validateGoldenImage(spec, path.Child("goldenImage")),
		validateAdditionalVolumes(spec.AdditionalVolumes, path.Child("additionalVolumes")),
		validateDisks(spec, path.Child("devices", "disks")),
		validateNetworks(spec.Networks, path.Child("networks")),
		validateCloudInit(spec.CloudInit, path.Child("cloudInit")),
		validateSSHKeys(spec.SSHKeys, path.Child("sshKeys")),
		validateTemplate(spec, options, path.Child("virtualMachineTemplate")),
	)
}

// ValidateTopology returns the errors of a region or a zone.
func ValidateTopology(value string, path *field.Path) field.ErrorList {
	return slices.Concat(
		require(path, value, `set the value of the provider nodes' topology label, or "default" for nodes without that label`),
		validateSyntax(path, value, validation.IsValidLabelValue),
	)
}

// reservedLabelDomains belong to the driver, KubeVirt and its cloud-controller-manager. A tag there
// would override labels that they depend on.
var reservedLabelDomains = []string{"kubevirt.machine.gardener.cloud/", "kubevirt.io/", "cluster.x-k8s.io/"}

// validateTags validates the tags, which become labels. They must name the cluster and the role.
func validateTags(tags map[string]string, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		metav1validation.ValidateLabels(tags, path),
		require(path.Key(v1alpha1.TagCluster), tags[v1alpha1.TagCluster],
			"set the shoot's technical ID; without it, machines of other shoots could be listed and deleted"),
		require(path.Key(v1alpha1.TagRole), tags[v1alpha1.TagRole], `set the machines' role, usually "node"`),
	)

	for _, key := range slices.Sorted(maps.Keys(tags)) {
		reserved := key == v1alpha1.LabelManagedBy || hasPrefix(key, reservedLabelDomains)
		errs = append(errs, forbid(path.Key(key), reserved, "this label is reserved for the driver and KubeVirt; use another key")...)
	}

	return errs
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func validateCloudInit(c *v1alpha1.CloudInit, path *field.Path) field.ErrorList {
	spec := ptr.Deref(c, v1alpha1.CloudInit{})

	return append(
		validateOneOf(path.Child("type"), cmp.Or(spec.Type, v1alpha1.CloudInitNoCloud), v1alpha1.CloudInitNoCloud, v1alpha1.CloudInitConfigDrive),
		validateNetworkData(spec, path.Child("networkData"))...)
}

// validateSSHKeys refuses keys that cloud-init would ignore silently. The guest knows which types of keys
// it supports.
func validateSSHKeys(keys []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, key := range keys {
		key = strings.TrimSpace(key)
		wrong := len(strings.Fields(key)) < 2 || strings.ContainsAny(key, "\r\n") || strings.Contains(key, "-----BEGIN")
		errs = append(errs, refuse(path.Index(i), wrong, field.OmitValueType{},
			`must be one line of an authorized_keys file, for example "ssh-ed25519 AAAA… user@host"`)...)
	}

	return errs
}
