package preflight

// The names of the checks. Scripts depend on them.
const (
	checkCredentials     = "credentials"
	checkExpiry          = "credentials-expiry"
	checkNamespace       = "namespace"
	checkKubeVirt        = "kubevirt"
	checkCDI             = "cdi"
	checkPermission      = "permission"
	checkClass           = "class"
	checkStorageClass    = "storage-class"
	checkStorageProfile  = "storage-profile"
	checkCloneStrategy   = "clone-strategy"
	checkSource          = "source"
	checkClonePermission = "clone-permission"
	checkZone            = "zone"
	checkCapacity        = "capacity"
	checkNetwork         = "network"
	checkInstancetype    = "instancetype"
	checkPreference      = "preference"
	checkQuota           = "quota"
	checkQuotaPeak       = "quota-peak"
	checkLimitRange      = "limit-range"
	checkDryRun          = "dry-run"
	checkDroppedFields   = "dropped-fields"
	checkWebhook         = "webhook"
	checkUnusedImage     = "unused-image"
)

// Checks returns the names of all checks, in the order of their results. docs/preflight.md
// describes each check and the permissions that it needs.
func Checks() []string {
	return []string{
		checkCredentials, checkExpiry, checkClass, checkNamespace, checkKubeVirt, checkCDI, checkPermission,
		checkStorageClass, checkStorageProfile, checkCloneStrategy, checkSource, checkClonePermission, checkZone, checkCapacity,
		checkNetwork, checkInstancetype, checkPreference, checkQuota, checkQuotaPeak, checkLimitRange, checkDryRun, checkDroppedFields,
		checkWebhook, checkUnusedImage,
	}
}
