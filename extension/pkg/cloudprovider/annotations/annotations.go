// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package annotations decides which annotations of a Service its load balancer gets. Package cloudprovider, the
// validation of CloudProfiles and Shoots, and the ControlPlane controller call it. It must not know a cluster.
package annotations

import (
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reserved is the prefix of annotations and labels that only this project sets.
const Reserved = "kubevirt.provider.extensions.gardener.cloud/"

// maxPatterns bounds an allow-list.
const maxPatterns = 100

// Validate returns the errors of an allow-list, whose patterns are keys, or a prefix and "/*".
func Validate(patterns []string, path *field.Path) field.ErrorList {
	if len(patterns) > maxPatterns {
		return field.ErrorList{field.TooMany(path, len(patterns), maxPatterns)}
	}

	var errs field.ErrorList

	for i, pattern := range patterns {
		key := pattern
		if prefix, every := strings.CutSuffix(pattern, "/*"); every {
			key = prefix + "/a"
		}

		for _, reason := range utilvalidation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path.Index(i), pattern, `must be the key of an annotation, or a prefix and "/*": `+reason))
		}

		if strings.HasPrefix(key, Reserved) || strings.HasPrefix(key, "kubectl.kubernetes.io/") {
			errs = append(errs, field.Invalid(path.Index(i), pattern, "belongs to another program; remove it"))
		}
	}

	return errs
}

// Allows reports whether one of the patterns matches a key, or includes another pattern.
func Allows(patterns []string, key string) bool {
	for _, pattern := range patterns {
		if prefix, every := strings.CutSuffix(pattern, "*"); pattern == key || every && strings.HasPrefix(key, prefix) {
			return true
		}
	}

	return false
}
