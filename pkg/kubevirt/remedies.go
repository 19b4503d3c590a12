// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// defaultRemedies returns the remedies of errors that have none, by reason, as the end of a sentence.
// Expected responses have none. docs/troubleshooting.md has the same remedies. kubeconfig is the place
// of the kubeconfig.
func defaultRemedies(kubeconfig string) map[string]string {
	return map[string]string{
		"InvalidInput": "correct the named fields; mcm-kubevirt validate lists all errors of a MachineClass",
		"CredentialsRefused": "put a kubeconfig with valid credentials into " + kubeconfig + "; for a service account, kubectl create token creates " +
			"a token",
		"PermissionDenied": "run kubectl apply -k kubernetes/provider-namespace to grant the missing permission; if a policy denies the object, ask " +
			"for an exception",
		"PreconditionFailed": "provide the prerequisite that the message names",
		"AddressChanged": "restore the server and namespace of the kubeconfig and the tags of the MachineClass. To abandon the machine " +
			"instead, run kubectl annotate --overwrite machine NAME " + spi.AnnotationAddress + "=" + spi.AddressAbandoned,
		"ForeignObject":       "rename or remove it",
		"QuotaExceeded":       "raise the ResourceQuota, or remove machines",
		"ProviderUnavailable": "repair the provider cluster or the network path to it; MCM retries within seconds",
		"TimedOut":            "remove the blocker; deletion continues",
		"OperationInProgress": "no action is needed; MCM retries within seconds",
		TokenVanished: "look for the deletion in the audit log of the provider cluster. MCM replaces the machine when its Node is gone or has " +
			"not been Ready for the health timeout; to replace it now, delete the Machine",
		"Unknown": "report the bug",
	}
}

// remedyOf returns the remedy of an error for its readers. Users of Gardener change Shoots and
// CloudProfiles: they get the remedies of api/reasons, in place of those for MachineClasses and Secrets.
func remedyOf(e *spi.Error, source machineclass.KubeconfigSource) string {
	ofGardener := ""

	switch {
	case source.Gardener && e.Kubeconfig:
		ofGardener = reasons.RemedyOf(reasons.CredentialsRefused)
	case source.Gardener:
		ofGardener = reasons.RemedyOf(e.Reason)
	}

	return cmp.Or(ofGardener, e.Remedy, defaultRemedies(source.String())[e.Reason])
}
