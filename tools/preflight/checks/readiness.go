// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// condition is a condition of an installation. KubeVirt's and CDI's have different types.
type condition struct {
	name    string
	status  corev1.ConditionStatus
	message string
}

// readiness returns the result about an operator's report on its installation.
func readiness(s subject, version, phase string, conditions []condition, describe string) []Result {
	const deployed = "Deployed" // KubeVirt and CDI have the same phases.

	var bad []string

	for _, c := range conditions {
		if c.name == "Available" && c.status != corev1.ConditionTrue || c.name == "Degraded" && c.status == corev1.ConditionTrue {
			bad = append(bad, fmt.Sprintf("%s is %s: %s", c.name, c.status, c.message))
		}
	}

	version = cmp.Or(version, "unknown version")

	switch {
	case len(bad) > 0:
		return s.fail(version+" is not ready: "+strings.Join(bad, "; "), describe)
	case phase != deployed:
		return s.fail(fmt.Sprintf("%s is in phase %q, not %s", version, phase, deployed), describe)
	default:
		return s.ok(version + " is ready")
	}
}
