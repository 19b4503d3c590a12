// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// maxCertificateAuthority bounds the certificates of a WorkloadIdentityConfig, in bytes. A bundle with ten
// certificates takes a fifth of it.
const maxCertificateAuthority = 64 << 10

// ValidateWorkloadIdentityConfig returns the errors of a WorkloadIdentityConfig. Unless internal servers are
// allowed, a server that only the seed may call is one, and always one that the operator does not allow.
func ValidateWorkloadIdentityConfig(config *api.WorkloadIdentityConfig, allowInternalServers bool, allows func(server string) bool, path *field.Path) field.ErrorList {
	errs := validateServer(config.Server, allowInternalServers, path.Child("server"))
	if len(errs) == 0 && !allows(config.Server) {
		errs = append(errs, field.Forbidden(path.Child("server"), "use a server to which the operator of the garden allows tokens to be sent (workloadIdentity.allowedServers)"))
	}

	errs = append(errs, validateCertificateAuthority(config.CertificateAuthority, path.Child("certificateAuthority"))...)

	if name := config.TLSServerName; name != "" && !isHostName(name) {
		errs = append(errs, field.Invalid(path.Child("tlsServerName"), name, "must be a DNS name or an IP address"))
	}

	if config.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "name the namespace of the machines in the provider cluster"))
	}

	for _, message := range apivalidation.ValidateNamespaceName(config.Namespace, false) {
		errs = append(errs, field.Invalid(path.Child("namespace"), config.Namespace, message))
	}

	return errs
}

// ValidateWorkloadIdentityConfigUpdate returns the errors of changes of a WorkloadIdentityConfig.
func ValidateWorkloadIdentityConfigUpdate(config, oldConfig *api.WorkloadIdentityConfig, path *field.Path) field.ErrorList {
	if config.Namespace == oldConfig.Namespace {
		return nil
	}

	return field.ErrorList{field.Forbidden(path.Child("namespace"), fmt.Sprintf(
		"must remain %s: machines cannot move to another namespace; create another WorkloadIdentity for new Shoots", oldConfig.Namespace))}
}

// validateServer does not quote a URL that may contain credentials.
func validateServer(server string, allowInternal bool, path *field.Path) field.ErrorList {
	switch {
	case server == "":
		return field.ErrorList{field.Required(path, "set the https URL of the API server of the provider cluster")}
	case !kubeconfig.IsServer(server):
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be an https URL without credentials, query and fragment")}
	case allowInternal:
		return nil
	}

	if internal := (*kubeconfig.InternalServerError)(nil); errors.As(kubeconfig.CheckInternalServer(server), &internal) {
		return field.ErrorList{field.Invalid(path, server, "is "+internal.Kind+"; use an address that leads to the provider cluster from other hosts and clusters too")}
	}

	return nil
}

// validateCertificateAuthority does not quote the text: a private key may have been put there by mistake.
func validateCertificateAuthority(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}

	if len(text) > maxCertificateAuthority {
		return field.ErrorList{field.TooLong(path, field.OmitValueType{}, maxCertificateAuthority)}
	}

	if _, err := cert.ParseCertsPEM([]byte(text)); err != nil || strings.Contains(text, "PRIVATE KEY") {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must contain PEM-encoded certificates, and nothing else")}
	}

	return nil
}

// isHostName reports whether a text is a DNS name or an IP address.
func isHostName(text string) bool {
	_, err := netip.ParseAddr(text)

	return err == nil || len(validation.IsDNS1123Subdomain(strings.ToLower(text))) == 0
}
