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
	given, ok := newObj.(*gardencorev1beta1.Shoot)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	before, _ := oldObj.(*gardencorev1beta1.Shoot)
	if given.DeletionTimestamp != nil || v1beta1helper.IsWorkerless(given) || before != nil && equality.Semantic.DeepEqual(given.Spec, before.Spec) {
		return nil
	}

	errs, err := v.errorsOf(ctx, given, before)
	if err != nil {
		return err
	}

	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the validation of the Shoot took too long: %w", err)
	}

	return first(errs).ToAggregate()
}

// errorsOf returns the errors of a new Shoot, or those that a change introduces.
func (v *shootValidator) errorsOf(ctx context.Context, given, before *gardencorev1beta1.Shoot) (field.ErrorList, error) {
	after, err := v.resolve(ctx, given)
	if err != nil {
		return nil, err
	}

	if before == nil {
		return after.errors(ctx), nil
	}

	previous, err := v.resolve(ctx, before)
	if err != nil {
		previous = &shoot{Shoot: before, profile: after.profile} // Its CloudProfile is gone.
	}

	// Both have the same images in use, so that what is assumed about them is no new error.
	after.before = before
	previous.before = before

	errs := append(introduced(after.errors(ctx), previous.errors(ctx)), after.immutable()...)

	moved, err := v.moved(ctx, after)
	if err != nil {
		return nil, err
	}

	return append(errs, moved...), nil
}

// shoot is a Shoot with its CloudProfile.
type shoot struct {
	*gardencorev1beta1.Shoot

	profile *gardencorev1beta1.CloudProfileSpec
	// before is the Shoot before the change; nil for a new one.
	before *gardencorev1beta1.Shoot
}

func (v *shootValidator) resolve(ctx context.Context, given *gardencorev1beta1.Shoot) (*shoot, error) {
	profile, err := gardenerutils.GetCloudProfile(ctx, v.garden, given)
	if err != nil {
		return nil, fmt.Errorf("spec.cloudProfile: use an existing CloudProfile or NamespacedCloudProfile: %w", err)
	}

	return &shoot{Shoot: given, profile: &profile.Spec}, nil
}

// provider is the path of the parts that only this extension knows.
func provider() *field.Path { return field.NewPath("spec", "provider") }

// errors returns the errors of the whole Shoot. It ends early if the context ends.
func (s *shoot) errors(ctx context.Context) field.ErrorList {
	config, errs := s.infrastructureConfig()
	errs = append(errs, s.sharedNetworks(config)...)
	errs = append(errs, api.Decode(s.Spec.Provider.ControlPlaneConfig, provider().Child("controlPlaneConfig"), &api.ControlPlaneConfig{})...)

	return append(errs, s.pools(ctx, s.networks(config))...)
}

// infrastructureConfig returns the configuration of the networks; nil if it has errors.
func (s *shoot) infrastructureConfig() (*api.InfrastructureConfig, field.ErrorList) {
	config := &api.InfrastructureConfig{}
	path := provider().Child("infrastructureConfig")

	errs := append(api.Decode(s.Spec.Provider.InfrastructureConfig, path, config), s.networkCount(config, path)...)
	if len(errs) == 0 {
		errs = validation.InfrastructureConfig(config, path)
	}

	if len(errs) > 0 {
		return nil, errs
	}

	return config, validation.Networking(s.Spec.Networking, config)
}

// networkCount returns an error if machines would have too many interfaces. Machines of the Shoot before the change
// may have too many: it must not add any.
func (s *shoot) networkCount(config *api.InfrastructureConfig, path *field.Path) field.ErrorList {
	if s.before != nil {
		before := &api.InfrastructureConfig{}
		_ = api.Decode(s.before.Spec.Provider.InfrastructureConfig, nil, before) // introduced compares the errors.

		if countOf(config) <= countOf(before) {
			return nil
		}
	}

	return validation.NetworkCount(config, path)
}

func countOf(config *api.InfrastructureConfig) int {
	return len(config.Networks.TenantNetworks) + len(config.Networks.SharedNetworks)
}

// networks returns the networks of the machines as the Infrastructure will report them, except for the
// namespace, which only the credentials have. It returns none if there are too many: each class would have them.
func (s *shoot) networks(config *api.InfrastructureConfig) []api.NetworkStatus {
	if config == nil || len(validation.NetworkCount(config, nil)) > 0 {
		return nil
	}

	const namespace = "namespace"

	var networks []api.NetworkStatus
	for _, n := range config.Networks.TenantNetworks {
		networks = append(networks, api.NetworkStatus{Name: namespace + "/" + s.technicalID() + "-" + n.Name, Default: n.Default, Attachment: n.Attachment})
	}

	for _, n := range config.Networks.SharedNetworks {
		networks = append(networks, api.NetworkStatus{Name: cmp.Or(n.Namespace, namespace) + "/" + n.Name, Attachment: n.Attachment})
	}

	return networks
}

// technicalID returns the technical ID of the Shoot, or any other for a new Shoot, which does not have one
// yet: Gardener bounds its length.
func (s *shoot) technicalID() string { return cmp.Or(s.Status.TechnicalID, anyTechnicalID) }

const anyTechnicalID = "shoot--project--name"

// immutable returns the errors of changes that the controllers could not make.
func (s *shoot) immutable() field.ErrorList {
	var errs field.ErrorList

	if createsNamespace(s.Shoot) != createsNamespace(s.before) {
		errs = append(errs, field.Forbidden(provider().Child("infrastructureConfig", "namespace", "create"),
			"machines cannot move to another namespace: restore the previous value, or create another Shoot"))
	}

	before := map[string]*gardencorev1beta1.Worker{}
	for i := range s.before.Spec.Provider.Workers {
		before[s.before.Spec.Provider.Workers[i].Name] = &s.before.Spec.Provider.Workers[i]
	}

	for i := range s.Spec.Provider.Workers {
		w := &s.Spec.Provider.Workers[i]
		if previous := before[w.Name]; previous != nil && v1beta1helper.IsUpdateStrategyInPlace(w.UpdateStrategy) {
			errs = append(errs, inPlace(w, previous, provider().Child("workers").Index(i))...)
		}
	}

	return errs
}

// inPlace returns the errors of changes of a pool with in-place updates that its machines would not get:
// they are never replaced, while new machines and the labels of all Nodes would have the new settings.
func inPlace(w, before *gardencorev1beta1.Worker, path *field.Path) field.ErrorList {
	const remedy = "machines with in-place updates are not replaced: restore the previous value, or add another pool"

	var errs field.ErrorList

	// The classes of a pool are numbered by its zones.
	if len(w.Zones) < len(before.Zones) || !slices.Equal(w.Zones[:len(before.Zones)], before.Zones) {
		errs = append(errs, field.Forbidden(path.Child("zones"), "zones can only be added at the end; "+remedy))
	}

	if !equalJSON(w.ProviderConfig, before.ProviderConfig) {
		errs = append(errs, field.Forbidden(path.Child("providerConfig"), remedy))
	}

	if !equality.Semantic.DeepEqual(w.DataVolumes, before.DataVolumes) {
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

// createsNamespace reports whether a Shoot has a namespace of its own in the provider cluster.
func createsNamespace(s *gardencorev1beta1.Shoot) bool {
	config := &api.InfrastructureConfig{}
	_ = api.Decode(s.Spec.Provider.InfrastructureConfig, nil, config) // infrastructureConfig reports errors.

	return config.Namespace != nil && config.Namespace.Create
}
