// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// inProviderSpecTerms returns a refusal of the VirtualMachine with the fields of the ProviderSpec
// in place of those of the VirtualMachine. Any other error is returned unchanged.
func inProviderSpecTerms(err error, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) error {
	return translated(err, fmt.Sprintf("create VirtualMachine %s/%s: ", vm.Namespace, vm.Name), func(message string) string {
		return render.InTermsOfProviderSpec(message, in, vm)
	})
}

// imageInProviderSpecTerms is inProviderSpecTerms for a refusal of the machine's golden image.
func imageInProviderSpecTerms(err error) error {
	return translated(err, "create golden image: ", render.ImageInTermsOfProviderSpec)
}

// translated returns a refusal with a translated message. The API server's message is reduced to
// its details, if it has any.
func translated(err error, operation string, translate func(string) string) error {
	if !errors.Is(err, spi.ErrInvalid) {
		return err
	}

	refusal := *spi.AsError(err)
	if details := detailsOf(err, refusal.Message); details != "" {
		refusal.Message = operation + details
	}

	refusal.Message = translate(refusal.Message)

	return &refusal
}

// detailsOf returns the details of a refusal; empty if it has no known form.
func detailsOf(err error, message string) string {
	// The wording of strict field validation (k8s.io/apimachinery/pkg/runtime/error.go).
	if _, fields, ok := strings.Cut(message, "strict decoding error: "); ok {
		return "this provider cluster's KubeVirt or CDI does not support " + fields
	}

	return strings.Join(causesOf(err), "; ")
}

// causesOf returns the causes of a refusal, one per field. KubeVirt's messages do not always name
// the field.
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
