package kubevirt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// noAction begins the remedies of expected responses. They are not part of an error's text.
const noAction = "Nothing"

// secretPlaceholder stands, in a remedy, for the Secret that contains the kubeconfig.
const secretPlaceholder = "the Secret of the MachineClass"

// remedies are the default remedies by reason, as in docs/troubleshooting.md. Each diagnosis has
// its own.
var remedies = map[string]string{
	"InvalidInput": "Correct the named fields; mcm-kubevirt validate lists all errors of a MachineClass.",
	"CredentialsRefused": "Put a kubeconfig with valid credentials into the Secret of the MachineClass; for a service account, kubectl " +
		"create token creates a token.",
	"PermissionDenied": "Run kubectl apply -k kubernetes/provider-namespace to grant the missing permission; if a policy denies the object, ask " +
		"for an exception.",
	"PreconditionFailed": "Provide the prerequisite that the message names.",
	"AddressChanged": "Restore the server and namespace of the kubeconfig and the tags of the MachineClass. To abandon the machine " +
		"instead, run kubectl annotate --overwrite machine NAME " + spi.AnnotationAddress + "=" + spi.AddressAbandoned + ".",
	"ForeignObject":       "Rename or remove it.",
	"QuotaExceeded":       "Raise the ResourceQuota, or remove machines.",
	"ProviderUnavailable": "Repair the provider cluster or the network path to it; MCM retries within seconds.",
	"TimedOut":            "Remove the blocker; deletion continues.",
	"OperationInProgress": "No action is needed; MCM retries within seconds.",
	"NotScheduledYet":     "Nothing.",
	"MachineNotFound":     "Nothing.",
	TokenVanished: "Look for the deletion in the audit log of the provider cluster. MCM replaces the machine when its Node is gone or has " +
		"not been Ready for the health timeout; to replace it now, delete the Machine.",
	"Unknown": "Report the bug.",
}

// remedyOf returns the remedy of an error for its readers, as the end of a sentence. Users of Gardener
// change Shoots and CloudProfiles: they get the remedies of api/reasons, in place of those for
// MachineClasses and Secrets.
func remedyOf(e *spi.Error, source machineclass.KubeconfigSource) string {
	if source.Gardener {
		token := e.Reason
		if e.Kubeconfig {
			token = reasons.CredentialsRefused
		}

		if remedy := reasons.RemedyOf(token); remedy != "" {
			return remedy
		}
	}

	if e.Remedy != "" {
		return e.Remedy
	}

	return defaultRemedy(e.Reason, source)
}

// defaultRemedy returns the remedy for errors of a reason that have none, as the end of a sentence.
// It is empty for expected responses.
func defaultRemedy(reason string, source machineclass.KubeconfigSource) string {
	known := remedies[reason]
	if strings.HasPrefix(known, noAction) {
		return ""
	}

	return clause(strings.ReplaceAll(known, secretPlaceholder, source.String()))
}

// clause returns a sentence as the end of another one.
func clause(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	if size == 0 || isAcronym(sentence) {
		return strings.TrimSuffix(sentence, ".")
	}

	return string(unicode.ToLower(first)) + strings.TrimSuffix(sentence[size:], ".")
}

// isAcronym reports whether a sentence begins with two capital letters, such as MCM.
func isAcronym(sentence string) bool {
	return len(sentence) > 1 && unicode.IsUpper(rune(sentence[0])) && unicode.IsUpper(rune(sentence[1]))
}
