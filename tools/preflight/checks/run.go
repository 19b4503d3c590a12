// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package checks checks whether a provider cluster can run the machines of MachineClasses before
// any is created: the driver's user and its permissions, the installed components, whether all
// objects that a class refers to exist and are large enough, and how the API server and KubeVirt
// respond to the objects that the driver would create. mcm-kubevirt preflight prints the results.
// The package changes nothing: all requests are reads, access reviews and dry-run creates. It must
// not depend on machine-controller-manager or a control cluster.
//
// Each check is a function in its own file, registered in list.go. Checks are independent: they share
// only a caching reader and pure functions of a class.
package checks

import (
	"cmp"
	"context"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Input specifies the scope of the checks. At least one of the credentials is required.
type Input struct {
	// Driver holds the driver's own credentials. Without them, Admin stands in for the driver.
	Driver *Credentials
	// Admin holds credentials with more permissions than the
	// driver's. Without them, the driver's are used.
	Admin   *Credentials
	Classes []Class
	// Evacuation reports whether the driver runs with --evacuation.
	Evacuation bool
	// Now is the current time.
	Now time.Time
}

// runTimeout bounds the whole run, so that a slow provider cluster cannot stall it.
const runTimeout = 2 * time.Minute

// Run makes all checks and returns their results in a stable order: first those for all classes,
// then class by class. An error in one check becomes a result and does not stop the others. Run
// stops early only if the provider cluster cannot be reached or rejects the credentials.
func Run(ctx context.Context, in *Input) *Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()

	l, results := logIn(ctx, in.Driver, in.Admin, in.Now)
	if l.viewer == nil {
		return &Report{Identities: l.identities, Results: results}
	}

	classes, unusable := rendered(in.Classes, l.namespace)
	all := &scope{classes: classes, evacuation: in.Evacuation, now: in.Now}

	tasks := prepared(beforeClasses, l, all, "")
	for _, c := range classes {
		tasks = append(tasks, prepared(ofClass, l, c, c.Name)...)
	}

	if len(classes) > 0 {
		tasks = append(tasks, prepared(afterClasses, l, all, "")...)
	}

	results = append(results, unusable...)
	results = append(results, concurrently(ctx, tasks)...)

	return &Report{
		Server:     statustext.Printable(l.viewer.Server),
		Namespace:  l.namespace,
		Identities: l.identities,
		Results:    deduplicated(results),
	}
}

// prepared binds checks to their reader and subject. Checks whose identity could not log in are omitted: that
// was reported.
func prepared[S any](checks []check[S], l *logins, of S, class string) []func(context.Context) []Result {
	var tasks []func(context.Context) []Result

	for _, c := range checks {
		r := l.viewer
		if c.asDriver {
			r = l.driver
		}

		if r == nil {
			continue
		}

		tasks = append(tasks, func(ctx context.Context) []Result {
			results := c.run(ctx, r, of)
			for i := range results {
				results[i].Check = cmp.Or(results[i].Check, c.name)
				results[i].Class = statustext.Printable(class)
			}

			return results
		})
	}

	return tasks
}
