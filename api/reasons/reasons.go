// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package reasons describes the failures of machines for Gardener: the error code that a Shoot
// gets, and the remedy for each of its readers. The driver, the Gardener extension and both pages of
// troubleshooting use it. It must not depend on how an error arises.
package reasons

import "strings"

// Gardener's error codes (github.com/gardener/gardener/pkg/apis/core/v1beta1/types_common.go).
const (
	InfraQuotaExceeded            = "ERR_INFRA_QUOTA_EXCEEDED"
	InfraResourcesDepleted        = "ERR_INFRA_RESOURCES_DEPLETED"
	ConfigurationProblem          = "ERR_CONFIGURATION_PROBLEM"
	InfraUnauthenticated          = "ERR_INFRA_UNAUTHENTICATED"
	InfraUnauthorized             = "ERR_INFRA_UNAUTHORIZED"
	RetryableInfraDependencies    = "ERR_RETRYABLE_INFRA_DEPENDENCIES"
	RetryableConfigurationProblem = "ERR_RETRYABLE_CONFIGURATION_PROBLEM"
)

const (
	// CredentialsRefused is the token of a failure that new credentials repair.
	CredentialsRefused = "CredentialsRefused"
	// MachineVanished is the token of a machine whose VirtualMachine was deleted externally.
	MachineVanished = "MachineVanished"
)

// Remedy is what the readers of a Shoot's error can do, by the object that they change. Each part is
// the end of a sentence; it is empty if a change of that object does not help.
type Remedy struct {
	// Shoot is for the owner of the Shoot and of its credentials.
	Shoot string
	// CloudProfile is for the operator of the garden.
	CloudProfile string
	// Provider is for the admin of the provider cluster.
	Provider string
	// Seed is for the operator of the seed.
	Seed string
}

// String returns the remedy in one line, as the end of an error.
func (r Remedy) String() string {
	var parts []string

	for _, part := range []struct{ object, action string }{
		{"Shoot", r.Shoot}, {"CloudProfile", r.CloudProfile}, {"provider cluster", r.Provider}, {"seed", r.Seed},
	} {
		if part.action != "" {
			parts = append(parts, part.object+": "+part.action)
		}
	}

	return strings.Join(parts, "; ")
}

// Failure is a failure of a machine.
type Failure struct {
	// Token begins the driver's text.
	Token string
	// Code is Gardener's error code. Gardener does not retry after ConfigurationProblem, so only a
	// failure that a change of the Shoot alone repairs has this code: that change starts the next
	// attempt. Quota, credentials and permissions have Gardener's own codes, which are not retried
	// either.
	Code string
	// Remedy is set for every failure.
	Remedy Remedy
}

// Failures returns all failures of machines. Tokens of responses that are not failures are missing.
func Failures() []Failure {
	var all []Failure
	for _, part := range [][]Failure{access(), capacity(), objects(), storage(), images(), starts(), components()} {
		all = append(all, part...)
	}

	return all
}

// GardenerCodes returns the tokens by Gardener's error code.
func GardenerCodes() map[string][]string {
	codes := map[string][]string{}
	for _, f := range Failures() {
		codes[f.Code] = append(codes[f.Code], f.Token)
	}

	return codes
}

// RemedyOf returns the remedy for users of Gardener as the end of an error; empty if the token is not
// that of a failure.
func RemedyOf(token string) string {
	for _, f := range Failures() {
		if f.Token == token {
			return f.Remedy.String()
		}
	}

	return ""
}
