// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import "context"

// checkInstancetype checks that the machine's instancetype exists, if the class names one.
func checkInstancetype(ctx context.Context, r *reader, c *class) []Result {
	return checkMatched(ctx, r, c.instancetype())
}

// checkPreference checks that the machine's preference exists, if the class names one.
func checkPreference(ctx context.Context, r *reader, c *class) []Result {
	return checkMatched(ctx, r, c.preference())
}

func checkMatched(ctx context.Context, r *reader, of *reference) []Result {
	if of.name == "" {
		return nil
	}

	_, results := existence(ctx, r, of)

	return results
}
