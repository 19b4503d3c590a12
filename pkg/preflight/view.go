package preflight

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// view is the identity and the class of a check. It creates the check's results and sanitizes their
// texts, since those of classes, kubeconfigs and provider clusters are untrusted.
type view struct {
	identity *identity
	class    string
}

func (v view) result(check string, level Level, subject, message, remedy string) Result {
	r := Result{
		Class: statustext.Printable(v.class), Check: check, Level: level, Subject: statustext.Printable(subject),
		Message: statustext.Printable(message), Remedy: statustext.Printable(remedy),
	}
	if v.identity != nil {
		r.Identity = v.identity.name
	}

	return r
}

func (v view) ok(check, subject, message string) Result {
	return v.result(check, OK, subject, message, "")
}

func (v view) warn(check, subject, message, remedy string) Result {
	return v.result(check, Warning, subject, message, remedy)
}

func (v view) fail(check, subject, message, remedy string) Result {
	return v.result(check, Error, subject, message, remedy)
}

// short is the result of a check that finds too little quota. The remedy
// is added once all such results are known.
func (v view) short(check string, level Level, subject, message string, missing []shortage) Result {
	r := v.result(check, level, subject, message, "")
	r.shortages = missing

	return r
}

// notChecked is the result of a check whose request failed. That an identity may not read an object
// does not mean that it is missing: an admin can run the command.
func (v view) notChecked(check, subject string, err error, command string) Result {
	if errors.Is(err, providerapi.ErrEndless) {
		return v.warn(check, subject, "not calculated: "+err.Error(), "as an admin of the provider cluster run: "+command)
	}

	err = providercluster.Explain(err)

	if errors.Is(err, spi.ErrForbidden) {
		return v.warn(check, subject, fmt.Sprintf("not checked: the %s's account may not read it", v.identity.name),
			"as an admin of the provider cluster run: "+command+"; or set --provider-kubeconfig to the kubeconfig of an admin")
	}

	return v.fail(check, subject, "not checked: "+err.Error(), "retry when the provider cluster responds, or run: "+command)
}

// absent reports whether the API server knows the type but not the object.
func absent(err error) bool {
	return providerapi.Absent(err)
}

// unknownType reports whether the API server does not know
// the type: its CRD or API is not installed.
func unknownType(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
