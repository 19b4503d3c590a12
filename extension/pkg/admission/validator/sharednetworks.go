package validator

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// validateSharedNetworks returns the errors of shared networks that the CloudProfile does not offer. The controller
// checks those in the namespace of the machines, which admission does not know.
func (c *validationContext) validateSharedNetworks() field.ErrorList {
	return validation.ValidateSharedNetworks(c.infrastructureConfig.Networks.SharedNetworks, c.profileConfig.SharedNetworks, infrastructurePath().Child("networks", "sharedNetworks"))
}

// validateNoNetworks refuses the shared networks of a NamespacedCloudProfile: a project must not offer networks to itself.
func validateNoNetworks(config *api.CloudProfileConfig, message string) field.ErrorList {
	if config.SharedNetworks == nil {
		return nil
	}

	return field.ErrorList{field.Forbidden(configPath().Child("sharedNetworks"), message)}
}
