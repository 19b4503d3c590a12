// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/gardener/gardener/extensions/pkg/controller/bastion"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxUserData bounds the user data, in bytes. That of gardenlet has one public key.
	maxUserData = 16 << 10
	// maxIngress bounds the number of ranges of clients.
	maxIngress = 50
)

// configValidator validates what a user configures: Gardener's API server accepts any user data, and ranges with
// host bits, which would admit more addresses than their first one.
type configValidator struct{}

var _ bastion.ConfigValidator = configValidator{}

// Validate implements bastion.ConfigValidator. Errors do not quote the user data. The provider cluster validates the
// exceptions of ranges, which only restrict them.
func (configValidator) Validate(_ context.Context, b *extensionsv1alpha1.Bastion, _ *extensions.Cluster) field.ErrorList {
	var errs field.ErrorList

	spec := field.NewPath("spec")

	switch size := len(b.Spec.UserData); {
	case size == 0:
		errs = append(errs, field.Required(spec.Child("userData"), "without it, nobody can log in"))
	case size > maxUserData:
		errs = append(errs, field.TooLong(spec.Child("userData"), "", maxUserData))
	}

	path := spec.Child("ingress")

	// A NetworkPolicy without ranges admits everybody.
	if len(b.Spec.Ingress) == 0 {
		errs = append(errs, field.Required(path, "set the addresses of the clients"))
	}

	if count := len(b.Spec.Ingress); count > maxIngress {
		return append(errs, field.TooMany(path, count, maxIngress))
	}

	for i, ingress := range b.Spec.Ingress {
		if err := validateRange(ingress.IPBlock.CIDR, path.Index(i).Child("ipBlock", "cidr")); err != nil {
			errs = append(errs, err)
		}
	}

	return errs
}

// validateRange returns the error of a range.
func validateRange(text string, path *field.Path) *field.Error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return field.Invalid(path, text, "must be a CIDR, such as 192.0.2.7/32")
	}

	if canonical := prefix.Masked(); canonical.String() != text {
		host := netip.PrefixFrom(prefix.Addr(), prefix.Addr().BitLen())

		return field.Invalid(path, text, fmt.Sprintf("set %s for one client, or %s for all clients of the range", host, canonical))
	}

	return nil
}

// rangesOf returns the ranges of the clients for a load balancer. kube-proxy filters each family by its own ranges, if it has any: so a
// family without clients has the range of an address that no client has. Before the Service has its families, these are both; then
// it has ranges of its families only, since implementations of load balancers may refuse others.
func rangesOf(b *extensionsv1alpha1.Bastion, families []corev1.IPFamily) []string {
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}

	nobody := map[corev1.IPFamily]string{corev1.IPv4Protocol: "255.255.255.255/32", corev1.IPv6Protocol: "::1/128"}

	var ranges []string

	for _, family := range families {
		clients := clientsOf(b, family)
		if len(clients) == 0 {
			clients = []string{nobody[family]}
		}

		ranges = append(ranges, clients...)
	}

	return ranges
}

// clientsOf returns the ranges of one family.
func clientsOf(b *extensionsv1alpha1.Bastion, family corev1.IPFamily) (ranges []string) {
	for _, ingress := range b.Spec.Ingress {
		prefix, err := netip.ParsePrefix(ingress.IPBlock.CIDR)
		if err == nil && prefix.Addr().Is4() == (family == corev1.IPv4Protocol) {
			ranges = append(ranges, ingress.IPBlock.CIDR)
		}
	}

	return ranges
}
