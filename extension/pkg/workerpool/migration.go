// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// migratingBridge is the remedy for a bridge to the pod network.
const migratingBridge = "set networks.pod.binding of the InfrastructureConfig to passt, or, if the pod network keeps the addresses of machines, networks.pod.allowBridgeLiveMigration"

// NotMigratable returns why the machines of the pool cannot be live-migrated, or why that is not known, with the fields of the
// Shoot; nil if nothing in their configuration prevents it, or if the configuration is not valid.
func (p *Pool) NotMigratable() *api.NotMigratablePool {
	spec, _, errs := p.ProviderSpec(0)
	if len(errs) > 0 {
		return nil // The Worker reports them.
	}

	reasons := p.obstacles(spec, 0)

	for i, n := range spec.Networks {
		if n.Binding != nil {
			reasons = append(reasons, p.reason(fmt.Sprintf("providerSpec.networks[%d].binding", i),
				"is a plugin, and KubeVirt migrates machines with it only if its registration has migration", "", 0))
		}
	}

	if len(reasons) == 0 {
		return nil
	}

	return &api.NotMigratablePool{Name: p.Name, Reason: strings.Join(reasons, "; ")}
}

// obstacles returns the reasons for which machines with a valid ProviderSpec cannot be live-migrated.
func (p *Pool) obstacles(spec *providerspec.ProviderSpec, zone int) (reasons []string) {
	for _, b := range validation.MigrationBlockers(spec) {
		remedy := ""
		if b.Remedy != "" {
			remedy = "; " + migratingBridge
		}

		reasons = append(reasons, p.reason(b.Field, b.Detail, remedy, zone))
	}

	return reasons
}

func (p *Pool) reason(path, detail, remedy string, zone int) string {
	errs := p.inShoot(field.ErrorList{{Field: path}}, zone)

	return errs[0].Field + " " + detail + remedy
}

// explainStrategy replaces the text of errors of the eviction strategy, which name the ProviderSpec and flags of the driver.
func (p *Pool) explainStrategy(errs field.ErrorList, spec *providerspec.ProviderSpec, zone int) field.ErrorList {
	const path = "providerSpec.virtualMachineTemplate.spec.template.spec.evictionStrategy"

	i := slices.IndexFunc(errs, func(err *field.Error) bool { return err.Field == path })
	if i < 0 {
		return errs
	}

	if strategyOf(spec.VirtualMachineTemplate) == kubevirtv1.EvictionStrategyLiveMigrate {
		errs[i].Detail = "the machines cannot be live-migrated, because " + strings.Join(p.obstacles(spec, zone), "; ") + "; change that, or remove evictionStrategy"
	} else {
		errs[i].Detail = "the extension sets it if a controller evacuates the machines; remove it"
	}

	return errs
}

// strategyOf returns the eviction strategy of a template; empty if it has none.
func strategyOf(template *providerspec.VirtualMachineTemplate) kubevirtv1.EvictionStrategy {
	if template == nil || template.Spec.Template == nil {
		return ""
	}

	return ptr.Deref(template.Spec.Template.Spec.EvictionStrategy, "")
}

// evictionStrategy returns the strategy of new machines; empty if the driver chooses it. It is no part of the hash of a class:
// existing machines keep theirs.
func (s *Settings) evictionStrategy() kubevirtv1.EvictionStrategy {
	switch {
	case s.EvacuationDenied:
		return kubevirtv1.EvictionStrategyLiveMigrateIfPossible
	case s.Evacuation && slices.ContainsFunc(s.ProfileConfig.VolumeClasses, func(c api.VolumeClass) bool { return c.ExposeAs != "" }):
		// Volumes of pods are attached later, and most are not shared: the driver would not notice that KubeVirt refuses the
		// eviction of a machine with LiveMigrate.
		return kubevirtv1.EvictionStrategyExternal
	default:
		return ""
	}
}

// withStrategy adds a strategy to a partial VirtualMachine.
func withStrategy(settings map[string]any, strategy kubevirtv1.EvictionStrategy) map[string]any {
	if settings == nil {
		settings = map[string]any{"spec": map[string]any{}}
	}

	spec := settings["spec"].(map[string]any) //nolint:forcetypeassert // hardwareOf makes it.
	if spec["template"] == nil {
		spec["template"] = map[string]any{"spec": map[string]any{}}
	}

	spec["template"].(map[string]any)["spec"].(map[string]any)["evictionStrategy"] = strategy //nolint:forcetypeassert // as above

	return settings
}
