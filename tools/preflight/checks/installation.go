package checks

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// installation is an operator's report on its installation.
type installation struct {
	version, phase string
	// bad are the conditions of an installation that is not ready.
	bad []string
}

func (i *installation) add(condition string, status corev1.ConditionStatus, message string) {
	if condition == "Available" && status != corev1.ConditionTrue || condition == "Degraded" && status == corev1.ConditionTrue {
		i.bad = append(i.bad, fmt.Sprintf("%s is %s: %s", condition, status, message))
	}
}

func (i *installation) results(s subject, describe string) []Result {
	const deployed = "Deployed" // KubeVirt and CDI have the same phases.

	version := cmp.Or(i.version, "unknown version")

	switch {
	case len(i.bad) > 0:
		return s.fail(version+" is not ready: "+strings.Join(i.bad, "; "), describe)
	case i.phase != deployed:
		return s.fail(fmt.Sprintf("%s is in phase %q, not %s", version, i.phase, deployed), describe)
	default:
		return s.ok(version + " is ready")
	}
}
