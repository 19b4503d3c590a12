package providercluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// refusal is a refusal of the VirtualMachine in terms of the ProviderSpec.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.cause }

// inUsersTerms returns a refusal of the VirtualMachine with the fields of the ProviderSpec in place of the VirtualMachine's. Any
// other error stays as it is.
func inUsersTerms(err error, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) error {
	if !errors.Is(err, spi.ErrInvalid) {
		return err
	}

	text := err.Error()
	if what := whatIsWrong(err); what != "" {
		text = fmt.Sprintf("%s: create VirtualMachine %s/%s: %s", spi.ErrInvalid, vm.Namespace, vm.Name, what)
	}

	return &refusal{text: render.InTermsOfProviderSpec(text, in, vm), cause: err}
}

// imageInUsersTerms does so for a golden image. What keeps it from being made keeps the machine from it.
func imageInUsersTerms(err error) error {
	if !errors.Is(err, spi.ErrInvalid) {
		return err
	}

	text := err.Error()
	if what := whatIsWrong(err); what != "" {
		text = fmt.Sprintf("%s: create golden image: %s", spi.ErrInvalid, what)
	}

	return &refusal{text: render.ImageInTermsOfProviderSpec(text), cause: err}
}

// whatIsWrong returns the gist of a refusal; empty if it has no known form.
func whatIsWrong(err error) string {
	// The wording of strict field validation (k8s.io/apimachinery/pkg/runtime/error.go).
	if _, fields, ok := strings.Cut(err.Error(), "strict decoding error: "); ok {
		return "this provider cluster's KubeVirt, or CDI, does not know what is asked for: " + fields
	}

	return strings.Join(causesOf(err), "; ")
}

// causesOf returns what is wrong, one entry per field. KubeVirt's messages do not always name the field.
func causesOf(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}

	var causes []string

	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			continue
		}

		if cause.Field == "" || strings.Contains(cause.Message, cause.Field) {
			causes = append(causes, cause.Message)
		} else {
			causes = append(causes, cause.Field+": "+cause.Message)
		}
	}

	return causes
}
