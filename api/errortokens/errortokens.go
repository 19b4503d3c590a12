// Package errortokens maps the tokens of the driver's errors to the error codes of Gardener, for the
// Gardener extension and for docs/troubleshooting.md. It must not know how an error arises.
package errortokens

// Gardener's error codes (github.com/gardener/gardener/pkg/apis/core/v1beta1/types_common.go).
const (
	InfraQuotaExceeded            = "ERR_INFRA_QUOTA_EXCEEDED"
	InfraResourcesDepleted        = "ERR_INFRA_RESOURCES_DEPLETED"
	ConfigurationProblem          = "ERR_CONFIGURATION_PROBLEM"
	InfraUnauthenticated          = "ERR_INFRA_UNAUTHENTICATED"
	InfraUnauthorized             = "ERR_INFRA_UNAUTHORIZED"
	RetryableInfraDependencies    = "ERR_RETRYABLE_INFRA_DEPENDENCIES"
	RetryableConfigurationProblem = "ERR_RETRYABLE_CONFIGURATION_PROBLEM"
)

// GardenerCodes are the tokens by the code that a Shoot gets when a machine fails with them. Tokens
// without a code are missing: they are not failures of a machine.
func GardenerCodes() map[string][]string {
	return map[string][]string{
		InfraQuotaExceeded: {
			"QuotaExceeded",
		},
		InfraResourcesDepleted: {
			"StorageExhausted", "Unschedulable", "InsufficientDevices", "VirtualizationMissing",
		},
		ConfigurationProblem: {
			"InvalidInput", "PreconditionFailed", "AddressChanged", "ForeignObject", "VolumeZoneConflict",
			"InstancetypeNotFound", "PreferenceNotFound", "DataSourceNotFound", "PodSecurityViolated",
			"PriorityClassNotFound", "NetworkNotFound", "InstanceInvalid", "PolicyViolated",
			"ClaimNotFound", "CloneSourceNotFound", "CloneZoneConflict", "VolumeTooSmall", "CloneRefused",
			"StorageClassNotFound", "ClaimInvalid", "ImageNotFound", "ImageUnauthorized",
			"ImageCertificateUntrusted", "ImageCorrupt", "CrashLooping", "MachineClassNotFound",
			"ClassSecretNotFound",
		},
		InfraUnauthenticated: {
			"CredentialsRefused",
		},
		InfraUnauthorized: {
			"PermissionDenied", "CloneForbidden",
		},
		RetryableInfraDependencies: {
			"WebhookUnavailable", "NodeDown", "ProviderUnavailable", "DriverUnavailable",
			"DriverAnswerInvalid", "TimedOut",
		},
		RetryableConfigurationProblem: {
			"CreationFailed", "ProvisioningFailed", "VolumeNotBound", "ClaimInUse", "CloneSourceInUse",
			"ImageUnreachable", "ImportFailed", "DataVolumeFailed", "ImagePullFailed", "SecretNotFound",
			"VolumeMountFailed", "NetworkSetupFailed",
		},
	}
}
