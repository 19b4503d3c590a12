// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// checkKubeVirt checks that KubeVirt is installed and ready, and warns of versions of Kubernetes that it is known
// not to work with.
func checkKubeVirt(ctx context.Context, r *reader, in *scope) []Result {
	s := r.about("KubeVirt")

	found, err := r.kubeVirt(ctx)

	switch {
	case errors.Is(err, errNotInstalled):
		return s.fail("is not installed", "install KubeVirt: https://kubevirt.io/user-guide/cluster_admin/installation")
	case err != nil:
		return s.notChecked(err, "kubectl get kubevirts --all-namespaces")
	}

	var conditions []condition
	for _, c := range found.Status.Conditions {
		conditions = append(conditions, condition{string(c.Type), c.Status, c.Message})
	}

	describe := kubectlIn(found.Namespace, "describe kubevirt", found.Name)
	ready := readiness(s, found.Status.ObservedKubeVirtVersion, string(found.Status.Phase), conditions, describe)

	return append(ready, checkKubernetes(ctx, r, in, found)...)
}

// incompatibility is a pair of versions of KubeVirt and Kubernetes that is known not to work.
// docs/compatibility.md has a row for each.
type incompatibility struct {
	// before is the first version of KubeVirt that is not known to be affected, and since the first
	// version of Kubernetes that is.
	before, since string
	// containers is set if only machines are affected that boot from a container image.
	containers bool
	effect     string
	// fixed is the version of KubeVirt to upgrade to, and works the last version of Kubernetes that
	// works.
	fixed, works string
	issue        string
}

var incompatibilities = []incompatibility{
	{
		// Conditions of pods have an observedGeneration since Kubernetes 1.34. virt-controller 1.6.0 does not
		// know the field: the API server refuses its patch of a launcher pod's conditions, which tests the old
		// ones. The patch of 1.7 tests nothing (pkg/virt-controller/watch/vmi/lifecycle.go).
		before: "1.7",
		since:  "1.34",
		effect: "may start no machine: virt-controller 1.6.0 cannot patch the conditions of pods",
		fixed:  "1.7",
		works:  "1.33",
		issue:  "https://github.com/kubevirt/kubevirt/issues/15586",
	},
	{
		// The checksum of a container disk does not fit into the int32 in KubeVirt's CRD (api/core/v1/types.go).
		before:     "1.8.3",
		since:      "1.36",
		containers: true,
		effect:     "leaves machines with a container disk in the phase Scheduled: the API server refuses virt-handler's status",
		fixed:      "1.8.4",
		works:      "1.35",
		issue:      "https://github.com/kubevirt/kubevirt/issues/17858",
	},
}

func checkKubernetes(ctx context.Context, r *reader, in *scope, kubeVirt *kubevirtv1.KubeVirt) []Result {
	suspected := slices.DeleteFunc(slices.Clone(incompatibilities), func(i incompatibility) bool {
		return !olderThan(kubeVirt, i.before) || i.containers && !slices.ContainsFunc(in.classes, bootsContainer)
	})
	if len(suspected) == 0 {
		return nil
	}

	s := r.about("Kubernetes")

	installed, err := r.version(ctx)
	if err != nil {
		return s.notChecked(err, "kubectl version")
	}

	var results []Result

	for _, i := range suspected {
		if installed.AtLeast(version.MustParseGeneric(i.since)) {
			results = append(results, s.warn(
				fmt.Sprintf("KubeVirt %s on Kubernetes %s %s (%s)", kubeVirt.Status.ObservedKubeVirtVersion, installed, i.effect, i.issue),
				"upgrade KubeVirt to "+i.fixed+" or newer, or keep Kubernetes at "+i.works)...)
		}
	}

	return results
}

// bootsContainer reports whether the machines of a class have a disk or a kernel from a container image.
func bootsContainer(c *class) bool {
	boot := c.instance().Domain.Firmware

	return boot != nil && boot.KernelBoot != nil && boot.KernelBoot.Container != nil ||
		slices.ContainsFunc(c.instance().Volumes, func(v kubevirtv1.Volume) bool { return v.ContainerDisk != nil })
}
