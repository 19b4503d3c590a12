// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"

	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// checkSources checks that the objects exist that the machine's objects name, except for the golden
// image, which the driver creates.
func checkSources(ctx context.Context, r *reader, c *class) []Result {
	var results []Result

	for _, of := range c.references() {
		found, existing := existence(ctx, r, &of)
		if source, ok := found.(*cdiv1beta1.DataSource); ok {
			existing = checkDataSource(ctx, r, &of, source)
		}

		results = append(results, existing...)
	}

	return results
}

// checkDataSource follows a DataSource to the object that it refers to at present.
func checkDataSource(ctx context.Context, r *reader, of *reference, source *cdiv1beta1.DataSource) []Result {
	s := r.about(of.subject())

	next := resolvedSource(source, of.namespace)
	if len(next) == 0 {
		return s.fail("has no source that can be cloned", kubectlIn(of.namespace, "describe "+of.kind.kubectl(), of.name))
	}

	next[0].field = "spec.source of " + quoted(of.subject())
	_, found := existence(ctx, r, &next[0])

	return append(s.ok("exists and refers to "+next[0].subject()), found...)
}
