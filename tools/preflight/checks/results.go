package checks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// The names of the checks, in the order of their results. Scripts depend on them. docs/preflight.md
// describes each check and the permissions that it needs.
const (
	checkCredentials     = "credentials"
	checkExpiry          = "credentials-expiry"
	checkClass           = "class"
	checkNamespace       = "namespace"
	checkKubeVirt        = "kubevirt"
	checkCDI             = "cdi"
	checkPermission      = "permission"
	checkStorageClass    = "storage-class"
	checkStorageProfile  = "storage-profile"
	checkCloneStrategy   = "clone-strategy"
	checkSource          = "source"
	checkClonePermission = "clone-permission"
	checkZone            = "zone"
	checkNetwork         = "network"
	checkInstancetype    = "instancetype"
	checkPreference      = "preference"
	checkQuota           = "quota"
	checkDryRun          = "dry-run"
	checkDroppedFields   = "dropped-fields"
	checkWebhook         = "webhook"
	checkUnusedImage     = "unused-image"
	checkLeftover        = "leftover"
)

// subject is the item that a check is about, usually a kind and a name. It creates the results of
// the check and sanitizes their texts, since those of classes, kubeconfigs and provider clusters
// are untrusted.
type subject struct {
	// check is one of the names above, identity one of Driver, Admin and empty.
	check, identity string
	class           string
	name            string
}

func (s subject) result(level Level, message, remedy string) []Result {
	return []Result{{
		Class:    statustext.Printable(s.class),
		Check:    s.check,
		Level:    level,
		Subject:  statustext.Printable(s.name),
		Message:  statustext.Printable(message),
		Remedy:   statustext.Printable(remedy),
		Identity: s.identity,
	}}
}

func (s subject) ok(message string) []Result {
	return s.result(OK, message, "")
}

func (s subject) warn(message, remedy string) []Result {
	return s.result(Warning, message, remedy)
}

func (s subject) fail(message, remedy string) []Result {
	return s.result(Error, message, remedy)
}

// notChecked is the result of a check whose request failed. That an identity may not read an object
// does not mean that it is missing: an admin can run the command.
func (s subject) notChecked(err error, command string) []Result {
	if errors.Is(err, providerapi.ErrListTooLarge) {
		return s.warn("not calculated: "+err.Error(), "as an admin of the provider cluster run: "+command)
	}

	err = providerapi.Explain(err)

	if errors.Is(err, spi.ErrForbidden) {
		return s.warn(fmt.Sprintf("not checked: the %s's account may not read it", s.identity),
			"as an admin of the provider cluster run: "+command+"; or set --provider-kubeconfig to the kubeconfig of an admin")
	}

	return s.fail("not checked: "+err.Error(), "retry when the provider cluster responds, or run: "+command)
}

// unknownType reports whether the API server does not know the type: its CRD or API is not
// installed. providerapi.Absent reports the other 404, for an object of a known type.
func unknownType(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// deduplicated moves a problem that several classes share to the results
// for the whole cluster, which come first.
func deduplicated(results []Result) []Result {
	// problem identifies results that differ only in their classes.
	type problem struct {
		check, subject, message, remedy, identity string
		level                                     Level
	}

	var (
		kept  []Result
		first = map[problem]int{}
	)

	for _, r := range results {
		p := problem{r.Check, r.Subject, r.Message, r.Remedy, r.Identity, r.Level}
		i, known := first[p]

		switch {
		case r.Level == OK || r.Class == "":
			kept = append(kept, r)
		case !known:
			first[p] = len(kept)
			kept = append(kept, r)
		case kept[i].Class != "" && kept[i].Class != r.Class:
			kept[i].Class, kept[i].Classes = "", []string{kept[i].Class, r.Class}
		case kept[i].Class == "" && !slices.Contains(kept[i].Classes, r.Class):
			kept[i].Classes = append(kept[i].Classes, r.Class)
		}
	}

	slices.SortStableFunc(kept, func(a, b Result) int { return cmp.Compare(min(len(a.Class), 1), min(len(b.Class), 1)) })

	return kept
}
