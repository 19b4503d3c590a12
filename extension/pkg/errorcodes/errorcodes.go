// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package errorcodes finds Gardener's error codes for errors of the driver and of the provider
// cluster. All controllers call it when they report an error. It must not depend on a controller.
package errorcodes

import (
	"regexp"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
)

// Known maps each error code to a function that recognizes it by the text of an error: a Machine's
// status contains only text.
var Known = known()

// texts are errors of the provider cluster, as client-go and the API server write them. They follow
// providercluster.ErrorPrefix: an account of the seed without a permission is no error of the
// infrastructure.
var texts = map[gardencorev1beta1.ErrorCode]*regexp.Regexp{
	gardencorev1beta1.ErrorInfraUnauthenticated: regexp.MustCompile(`provider cluster: .*(\bUnauthorized\b|the server has asked for the client to provide credentials)`),
	// The administrator of the provider cluster can let it trust the token of a WorkloadIdentity.
	gardencorev1beta1.ErrorRetryableConfigurationProblem: regexp.MustCompile(`provider cluster: it does not accept the token of the WorkloadIdentity`),
	gardencorev1beta1.ErrorInfraUnauthorized:             regexp.MustCompile(`provider cluster: .*is forbidden: User `),
	gardencorev1beta1.ErrorInfraQuotaExceeded:            regexp.MustCompile(`provider cluster: .*is forbidden: exceeded quota`),
	gardencorev1beta1.ErrorRetryableInfraDependencies:    regexp.MustCompile(`provider cluster: .*(no such host|name cannot be resolved|no route to host|connection refused|connection reset|i/o timeout|Client\.Timeout exceeded|TLS handshake timeout|context deadline exceeded|no response in time|connection was closed|service unavailable)`),
}

func known() map[gardencorev1beta1.ErrorCode]func(string) bool {
	matches := map[gardencorev1beta1.ErrorCode]func(string) bool{}
	for code, text := range texts {
		matches[code] = text.MatchString
	}

	for code, tokens := range reasons.GardenerCodes() {
		// The driver writes a token in front of its message.
		token := regexp.MustCompile(`\b(` + strings.Join(tokens, "|") + `): `)
		other := matches[gardencorev1beta1.ErrorCode(code)]
		matches[gardencorev1beta1.ErrorCode(code)] = func(text string) bool {
			return token.MatchString(text) || other != nil && other(text)
		}
	}

	return matches
}
