// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package validator refuses objects of the garden cluster that could never work: Shoots, CloudProfiles,
// NamespacedCloudProfiles, bindings, WorkloadIdentities, and Secrets with credentials. It contains the rules that need no
// provider cluster; the controllers in the seed report the others. The API server of the garden calls
// it as a webhook. It must not call a provider cluster.
package validator

import (
	"regexp"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

const (
	// Name is the name of the webhook for Gardener's own kinds.
	Name = "validator"
	// SecretsName is the name of the webhook for Secrets.
	SecretsName = "secrets." + Name
)

// New creates the webhook for Gardener's own kinds. It reads from the API server instead of a cache:
// an object that was applied a moment before may be referred to. Unless internal servers are allowed, it
// refuses WorkloadIdentities with servers that only the seed may call, and always those with other servers than
// the identities' options allow.
func New(mgr manager.Manager, allowInternalServers bool, identities *kubevirt.IdentityOptions) (*extensionswebhook.Webhook, error) {
	garden := mgr.GetAPIReader()

	tokens := &workloadIdentityValidator{allowInternalServers: allowInternalServers, identities: identities}

	webhook, err := extensionswebhook.New(mgr, extensionswebhook.Args{
		Name: Name,
		Path: "/webhooks/validate",
		Validators: map[extensionswebhook.Validator][]extensionswebhook.Type{
			&shootValidator{garden: garden}:                  {{Obj: &gardencorev1beta1.Shoot{}}},
			&cloudProfileValidator{}:                         {{Obj: &gardencorev1beta1.CloudProfile{}}},
			&namespacedCloudProfileValidator{garden: garden}: {{Obj: &gardencorev1beta1.NamespacedCloudProfile{}}},
			&bindingValidator{}:                              {{Obj: &securityv1alpha1.CredentialsBinding{}}},
			tokens:                                           {{Obj: &securityv1alpha1.WorkloadIdentity{}}},
		},
		Target:         extensionswebhook.TargetSeed,
		ObjectSelector: labelled(v1beta1constants.LabelExtensionProviderTypePrefix),
	})
	if err != nil {
		return nil, err
	}

	webhook.Webhook.Handler = &warner{Handler: webhook.Webhook.Handler, shoots: &shootValidator{garden: garden}}

	return webhook, nil
}

// NewSecrets creates the webhook for Secrets. gardener-controller-manager labels those to which a
// binding refers; gardener-apiserver tries the label before it accepts a binding. Unless internal servers
// are allowed, it refuses kubeconfigs with servers that only the seed may call.
func NewSecrets(mgr manager.Manager, allowInternalServers bool) (*extensionswebhook.Webhook, error) {
	secrets := &secretValidator{allowInternalServers: allowInternalServers}

	return extensionswebhook.New(mgr, extensionswebhook.Args{
		Name:           SecretsName,
		Path:           "/webhooks/validate/secrets",
		Validators:     map[extensionswebhook.Validator][]extensionswebhook.Type{secrets: {{Obj: &corev1.Secret{}}}},
		Target:         extensionswebhook.TargetSeed,
		ObjectSelector: labelled(v1beta1constants.LabelShootProviderPrefix),
	})
}

// labelled selects the objects that Gardener labels with the provider type.
func labelled(prefix string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{prefix + kubevirt.Type: "true"}}
}

// first returns the first errors of a list: the response to a user has them all.
func first(errs field.ErrorList) field.ErrorList {
	return errs[:min(len(errs), providerspec.MaxErrors)]
}

// introduced returns the errors that are not known. An object that was accepted when there were fewer
// rules can still be changed where it is correct. Entries of lists may have moved: an error is known as
// often as the same error was found before, whatever its index in a list.
func introduced(errs, known field.ErrorList) field.ErrorList {
	left := map[string]int{}
	for _, err := range known {
		left[withoutIndexes(err)]++
	}

	var added field.ErrorList

	for _, err := range errs {
		text := withoutIndexes(err)
		if left[text]--; left[text] < 0 {
			added = append(added, err)
		}
	}

	return added
}

var index = regexp.MustCompile(`\[\d+\]`)

// withoutIndexes returns the text of an error without the indexes of lists in its field.
func withoutIndexes(err *field.Error) string {
	return index.ReplaceAllString(err.Field, "[]") + ": " + err.ErrorBody()
}
