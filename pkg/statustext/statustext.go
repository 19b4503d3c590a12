// Package statustext makes texts fit for those who read them: for machine-controller-manager, which reads, compares and shows those of
// errors, and for terminals. pkg/kubevirt uses it for what the driver says, pkg/driverrpc for what a driver at the other end of a
// connection says, and mcm-kubevirt for what a provider cluster says. It must not know what the texts are about.
package statustext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
)

// MaxLength bounds a text, in bytes: machine-controller-manager compares old and new texts letter by letter.
const MaxLength = 1000

// Fit makes a message fit to travel: machine-controller-manager reads code and message back from the error's text, between
// square brackets (pkg/util/provider/machinecodes/status), so the message must have none of its own. A message that fits already
// stays as it is.
func Fit(message string) string {
	return cut(travelling(message), MaxLength)
}

// FitWithRemedy is Fit for a message that ends with a remedy. A message that is too long loses its own end, not the remedy.
func FitWithRemedy(message, remedy string) string {
	if remedy == "" {
		return Fit(message)
	}

	end := "; " + cut(travelling(remedy), MaxLength/2)

	return cut(travelling(message), MaxLength-len(end)) + end
}

// travelling replaces what machine-controller-manager would read as something else.
func travelling(message string) string {
	message = strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			return '('
		case r == ']':
			return ')'
		case unicode.IsControl(r):
			return ' '
		default:
			return r
		}
	}, message)

	return withoutPhrases.Replace(message)
}

// withoutPhrases changes what machine-controller-manager looks for in the text of a Machine's last operation: the names of its steps
// (pkg/util/provider/machineutils/utils.go), and the code that starts its search for orphans. A provider that writes one of them
// would move a Machine to another step.
var withoutPhrases = strings.NewReplacer(inLowerCase(
	machineutils.GetVMStatus, machineutils.InstanceInitialization, machineutils.InitiateDrain, machineutils.NodeReadyForUpdate,
	machineutils.DelVolumesAttachments, machineutils.InitiateVMDeletion, machineutils.InitiateNodeDeletion,
	machineutils.InitiateFinalizerRemoval, codes.OutOfRange.String(),
)...)

// inLowerCase returns each phrase with its replacement.
func inLowerCase(phrases ...string) []string {
	pairs := make([]string, 0, 2*len(phrases))
	for _, phrase := range phrases {
		pairs = append(pairs, phrase, strings.ToLower(phrase))
	}

	return pairs
}

// cut shortens a message to so many bytes, between two characters.
func cut(message string, length int) string {
	const ellipsis = " …"

	if len(message) <= length {
		return message
	}

	end := length - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}

	return message[:end] + ellipsis
}
