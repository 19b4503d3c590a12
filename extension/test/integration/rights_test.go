// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// extensionAccount is the ServiceAccount of the extension's chart.
const extensionAccount = "gardener-extension-provider-kubevirt"

// lists is the reason of permissions of caches, which list by a watch if the API server supports that.
const lists = "fills a cache if the API server does not stream lists: k8s.io/client-go/tools/cache/reflector.go"

// restarts is the reason of permissions that Gardener's library needs if the wait for the machines lasts
// too long.
const restarts = "restarts a machine-controller-manager that looks stuck for two minutes: " +
	"extensions/pkg/controller/worker/genericactuator/actuator_reconcile.go:109"

// streamsLists has the minor versions of Kubernetes in the lab, and whether their API servers stream
// lists: the default of the feature gate WatchList, in staging/src/k8s.io/apiserver/pkg/features/kube_features.go
// of each version.
var streamsLists = map[string]bool{"1.32": true, "1.33": false, "1.34": true, "1.35": true, "1.36": true}

// accounts are the accounts of charts with which programs run in the lab.
var accounts = []struct {
	// permissions reads those of the account's cluster.
	permissions     func(*seed.Seed, context.Context, string, string) (*seed.Permissions, error)
	namespace, name string
	// notInTests are the permissions that no test needs, with their reason. Paths are in Gardener's
	// module.
	notInTests map[string]string
}{
	{(*seed.Seed).Permissions, seed.ExtensionNamespace, extensionAccount, map[string]string{
		"delete pods": restarts,
		"patch events": "counts repeated events of the leader election in a crash loop: k8s.io/client-go/tools/record/event.go, " +
			"called by sigs.k8s.io/controller-runtime/pkg/leaderelection",
		"list namespaces":                                lists,
		"list clusters.extensions.gardener.cloud":        lists,
		"list bastions.extensions.gardener.cloud":        lists,
		"list infrastructures.extensions.gardener.cloud": lists,
		"list controlplanes.extensions.gardener.cloud":   lists,
		"list workers.extensions.gardener.cloud":         lists,
		"list machineclasses.machine.sapcloud.io":        lists,
		"list machinedeployments.machine.sapcloud.io":    lists,
		"list machinesets.machine.sapcloud.io":           lists,
		"list machines.machine.sapcloud.io":              lists,
	}},
	{(*seed.Seed).Permissions, "garden", seed.AdmissionAccount, map[string]string{
		"patch events":   "as above",
		"delete secrets": "deletes certificates after their rotation: extensions/pkg/webhook/certificates/reconciler.go:212",
	}},
	{(*seed.Seed).GardenPermissions, "kube-system", seed.AdmissionGardenAccount, nil},
}

// checkPermissions compares the permissions of the accounts with the audit logs of all tests: no request was
// denied, and if all tests were run, each permission was used.
func checkPermissions(ctx context.Context) (failed error) {
	version := semver.MustParse(theSeed.KubernetesVersion())

	streams, known := streamsLists[fmt.Sprintf("%d.%d", version.Major(), version.Minor())]
	if !known {
		return fmt.Errorf("streamsLists has no row for Kubernetes %s", version)
	}

	for _, a := range accounts {
		maps.DeleteFunc(a.notInTests, func(_, reason string) bool { return reason == lists && !streams })

		p, err := a.permissions(theSeed, ctx, a.namespace, a.name)
		if err != nil {
			return fmt.Errorf("check the permissions of %s: %w", a.name, err)
		}

		fmt.Fprintf(os.Stderr, "permissions of %s: %d requests; %d permissions granted, %d used, %d not needed by tests; %d kinds of requests denied\n",
			a.name, p.Requests, len(p.Granted), len(p.Used), len(a.notInTests), len(p.Denied))

		for denied := range p.Denied {
			failed = errors.Join(failed, fmt.Errorf("%s was denied: %s", a.name, denied))
		}

		if err := requireUsed(p, a.notInTests); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the chart of %s: %w", a.name, err))
		}
	}

	return failed
}

// requireUsed returns an error for each permission that is not used, if all tests were run. Some are
// used under load only.
func requireUsed(p *seed.Permissions, notInTests map[string]string) (failed error) {
	for name, reason := range notInTests {
		mayBeUsed := reason == lists || reason == restarts
		if !p.Granted.Has(name) || p.Used.Has(name) && !mayBeUsed {
			failed = errors.Join(failed, fmt.Errorf("%q is not granted, or a test needs it: remove it from notInTests", name))
		}
	}

	if isPartial() {
		fmt.Fprintln(os.Stderr, "not all tests were run; not used:", strings.Join(p.Unused(), ", "))

		return failed
	}

	for _, unused := range p.Unused() {
		if notInTests[unused] == "" {
			failed = errors.Join(failed, errors.New("granted, and never used: "+unused))
		}
	}

	return failed
}

// isPartial reports whether only some of the tests were run.
func isPartial() bool {
	return slices.ContainsFunc([]string{"test.run", "test.skip"}, func(name string) bool { return flag.Lookup(name).Value.String() != "" })
}
