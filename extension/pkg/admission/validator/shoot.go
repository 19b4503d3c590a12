// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// shootValidator validates the parts of a Shoot that the controllers would refuse.
type shootValidator struct {
	garden client.Reader
}

var _ extensionswebhook.Validator = (*shootValidator)(nil)

// Validate implements extensionswebhook.Validator. In an update, it reports only errors that the change
// introduces.
func (v *shootValidator) Validate(ctx context.Context, newObj, oldObj client.Object) error {
	shoot, ok := newObj.(*gardencorev1beta1.Shoot)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	oldShoot, _ := oldObj.(*gardencorev1beta1.Shoot)
	if shoot.DeletionTimestamp != nil || v1beta1helper.IsWorkerless(shoot) || oldShoot != nil && equality.Semantic.DeepEqual(shoot.Spec, oldShoot.Spec) {
		return nil
	}

	errs, err := v.validateShoot(ctx, shoot, oldShoot)
	if err != nil {
		return err
	}

	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the validation of the Shoot took too long: %w", err)
	}

	return first(errs).ToAggregate()
}

// validateShoot returns the errors of a new Shoot, or those that a change introduces.
func (v *shootValidator) validateShoot(ctx context.Context, shoot, oldShoot *gardencorev1beta1.Shoot) (field.ErrorList, error) {
	c, err := v.resolve(ctx, shoot)
	if err != nil {
		return nil, err
	}

	if oldShoot == nil {
		return append(c.validate(ctx), c.validateTenantNetworks()...), nil
	}

	old, err := v.resolve(ctx, oldShoot)
	if err != nil {
		old = newValidationContext(oldShoot, c.profile) // Its CloudProfile is gone.
	}

	// Both have the same images in use, so that what is assumed about them is no new error.
	c.old = old
	old.old = old

	errs := slices.Concat(introduced(c.validate(ctx), old.validate(ctx)), c.validateImmutable(), c.validateTenantNetworks())

	moved, err := v.validateCredentialsNamespace(ctx, c)
	if err != nil {
		return nil, err
	}

	return append(errs, moved...), nil
}

// validationContext is a Shoot with its CloudProfile, and their decoded configurations.
type validationContext struct {
	*gardencorev1beta1.Shoot

	profile *gardencorev1beta1.CloudProfileSpec
	// old is the Shoot before the change; nil for a new one.
	old *validationContext

	infrastructureConfig api.InfrastructureConfig
	profileConfig        api.CloudProfileConfig
	// infrastructureErrs and profileErrs are the errors of decoding them.
	infrastructureErrs, profileErrs field.ErrorList
}

func (v *shootValidator) resolve(ctx context.Context, shoot *gardencorev1beta1.Shoot) (*validationContext, error) {
	profile, err := gardenerutils.GetCloudProfile(ctx, v.garden, shoot)
	if err != nil {
		return nil, fmt.Errorf("spec.cloudProfile: use an existing CloudProfile or NamespacedCloudProfile: %w", err)
	}

	return newValidationContext(shoot, &profile.Spec), nil
}

func newValidationContext(shoot *gardencorev1beta1.Shoot, profile *gardencorev1beta1.CloudProfileSpec) *validationContext {
	c := &validationContext{Shoot: shoot, profile: profile}
	c.infrastructureErrs = api.Decode(shoot.Spec.Provider.InfrastructureConfig, infrastructurePath(), &c.infrastructureConfig)
	c.profileErrs = api.Decode(profile.ProviderConfig, field.NewPath("CloudProfile", "spec", "providerConfig"), &c.profileConfig)

	return c
}

// provider is the path of the parts that only this extension knows.
func provider() *field.Path { return field.NewPath("spec", "provider") }

func infrastructurePath() *field.Path { return provider().Child("infrastructureConfig") }

func networksPath() *field.Path { return infrastructurePath().Child("networks") }

// validate returns the errors of the whole Shoot. It ends early if the context ends.
func (c *validationContext) validate(ctx context.Context) field.ErrorList {
	errs, valid := c.validateInfrastructureConfig()

	var networks []api.NetworkStatus
	if valid {
		networks = c.networks()
		errs = append(errs, validation.ValidateSharedNetworks(c.infrastructureConfig.Networks.SharedNetworks, c.profileConfig.SharedNetworks, networksPath().Child("sharedNetworks"))...)
	}

	errs = append(errs, c.validateControlPlaneConfig()...)

	return append(errs, c.validatePools(ctx, networks)...)
}

// validateControlPlaneConfig returns the errors of the configuration of the control plane, with the CloudProfile.
func (c *validationContext) validateControlPlaneConfig() field.ErrorList {
	path := provider().Child("controlPlaneConfig")
	config := &api.ControlPlaneConfig{}

	errs := api.Decode(c.Spec.Provider.ControlPlaneConfig, path, config)

	return append(errs, validation.ValidateLoadBalancer(config.LoadBalancer, c.profileConfig.LoadBalancer, path.Child("loadBalancer"))...)
}

// validateInfrastructureConfig returns the errors of the configuration of the networks, and of the Shoot's networks
// with it. valid is set if the configuration has no errors.
func (c *validationContext) validateInfrastructureConfig() (errs field.ErrorList, valid bool) {
	errs = slices.Concat(c.infrastructureErrs, c.validateNetworkCount())
	if len(errs) == 0 {
		errs = validation.ValidateInfrastructureConfig(&c.infrastructureConfig, infrastructurePath())
	}

	if len(errs) > 0 {
		return errs, false
	}

	return validation.ValidateNetworking(c.Spec.Networking, &c.infrastructureConfig, c.podNetwork()), true
}

// validateNetworkCount returns an error if machines would have too many interfaces. Machines of the Shoot before the
// change may have too many: it must not add any.
func (c *validationContext) validateNetworkCount() field.ErrorList {
	if c.old != nil && countOf(&c.infrastructureConfig) <= countOf(&c.old.infrastructureConfig) {
		return nil
	}

	return validation.ValidateNetworkCount(&c.infrastructureConfig, infrastructurePath())
}

func countOf(config *api.InfrastructureConfig) int {
	return len(config.Networks.TenantNetworks) + len(config.Networks.SharedNetworks)
}

// networks returns the networks of the machines as the Infrastructure will report them, except for the
// namespace, which only the credentials have. It returns none if there are too many: each class would have them.
func (c *validationContext) networks() []api.NetworkStatus {
	config := &c.infrastructureConfig
	if len(validation.ValidateNetworkCount(config, nil)) > 0 {
		return nil
	}

	const namespace = "namespace"

	var networks []api.NetworkStatus
	for _, n := range config.Networks.TenantNetworks {
		networks = append(networks, api.NetworkStatus{Name: namespace + "/" + c.technicalID() + "-" + n.Name, Default: n.Default, Attachment: n.Attachment})
	}

	for _, n := range config.Networks.SharedNetworks {
		networks = append(networks, api.NetworkStatus{Name: cmp.Or(n.Namespace, namespace) + "/" + n.Name, Attachment: n.Attachment})
	}

	return networks
}

// podNetwork returns the connection of the machines to the pod network as the Infrastructure will report it. For an existing
// Shoot that does not set it, that is an assumption: it keeps the default of its creation.
func (c *validationContext) podNetwork() *api.PodNetwork {
	return validation.PodNetworkOf(&c.infrastructureConfig.Networks, c.profileConfig.PodNetwork)
}

// technicalID returns the technical ID of the Shoot, or any other for a new Shoot, which does not have one
// yet: Gardener bounds its length.
func (c *validationContext) technicalID() string { return cmp.Or(c.Status.TechnicalID, anyTechnicalID) }

const anyTechnicalID = "shoot--project--name"

// validateImmutable returns the errors of changes that the controllers could not make.
func (c *validationContext) validateImmutable() field.ErrorList {
	var errs field.ErrorList

	if c.createsNamespace() != c.old.createsNamespace() {
		errs = append(errs, field.Forbidden(infrastructurePath().Child("namespace", "create"),
			"machines cannot move to another namespace: restore the previous value, or create another Shoot"))
	}

	oldWorkers := map[string]*gardencorev1beta1.Worker{}
	for i := range c.old.Spec.Provider.Workers {
		oldWorkers[c.old.Spec.Provider.Workers[i].Name] = &c.old.Spec.Provider.Workers[i]
	}

	for i := range c.Spec.Provider.Workers {
		w := &c.Spec.Provider.Workers[i]
		if old := oldWorkers[w.Name]; old != nil && v1beta1helper.IsUpdateStrategyInPlace(w.UpdateStrategy) {
			errs = append(errs, validateInPlaceUpdate(w, old, provider().Child("workers").Index(i))...)
		}
	}

	return errs
}

// validateTenantNetworks returns the errors of tenant networks that the CloudProfile does not allow, unless they existed with
// the same content, and of other ranges of virtual networks: the network plugins of the provider cluster cannot change them.
func (c *validationContext) validateTenantNetworks() field.ErrorList {
	var old []api.TenantNetwork
	if c.old != nil {
		old = c.old.infrastructureConfig.Networks.TenantNetworks
	}

	networks := c.infrastructureConfig.Networks.TenantNetworks
	path := networksPath().Child("tenantNetworks")

	return append(validation.ValidateTenantNetworks(networks, old, c.profileConfig.TenantNetworks, path), validation.ValidateVirtualNetworkUpdate(networks, old, path)...)
}

// validateInPlaceUpdate returns the errors of changes of a pool with in-place updates that its machines would not get:
// they are never replaced, while new machines and the labels of all Nodes would have the new settings.
func validateInPlaceUpdate(w, old *gardencorev1beta1.Worker, path *field.Path) field.ErrorList {
	const remedy = "machines with in-place updates are not replaced: restore the previous value, or add another pool"

	var errs field.ErrorList

	// The classes of a pool are numbered by its zones.
	if len(w.Zones) < len(old.Zones) || !slices.Equal(w.Zones[:len(old.Zones)], old.Zones) {
		errs = append(errs, field.Forbidden(path.Child("zones"), "zones can only be added at the end; "+remedy))
	}

	if !equalJSON(w.ProviderConfig, old.ProviderConfig) {
		errs = append(errs, field.Forbidden(path.Child("providerConfig"), remedy))
	}

	if !equality.Semantic.DeepEqual(w.DataVolumes, old.DataVolumes) {
		errs = append(errs, field.Forbidden(path.Child("dataVolumes"), remedy))
	}

	return errs
}

// equalJSON reports whether two configurations are equal, regardless of the order and the spaces of their
// text.
func equalJSON(a, b *runtime.RawExtension) bool {
	var parsed, other any

	if a != nil && json.Unmarshal(a.Raw, &parsed) != nil || b != nil && json.Unmarshal(b.Raw, &other) != nil {
		return equality.Semantic.DeepEqual(a, b)
	}

	return reflect.DeepEqual(parsed, other)
}

// createsNamespace reports whether the Shoot has a namespace of its own in the provider cluster.
func (c *validationContext) createsNamespace() bool {
	return c.infrastructureConfig.Namespace != nil && c.infrastructureConfig.Namespace.Create
}
