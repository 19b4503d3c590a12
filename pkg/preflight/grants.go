package preflight

import (
	"fmt"
	"strings"
)

// shippedRole is a Role in this repository, and the ServiceAccount that it is bound to.
type shippedRole struct {
	// folder is applied with kubectl apply -k.
	folder, role string
}

const (
	// shippedNamespace is the namespace in the kustomizations.
	shippedNamespace = "shoot-machines"
	shippedAccount   = "machine-controller"
)

// roles maps each part of the driver's work to the shipped Role that grants its permissions.
var roles = map[part]shippedRole{
	machines:     {"kubernetes/provider-namespace", "machine-controller"},
	goldenImages: {"kubernetes/provider-namespace", "machine-controller"},
	diagnosis:    {"kubernetes/provider-namespace", "machine-controller"},
	evacuation:   {"kubernetes/evacuation/provider-namespace", "machine-controller-evacuation"},
}

// missingPermission is a permission of which the driver lacks some verbs.
type missingPermission struct {
	permission

	verbs []string
}

// reportMissing returns one result for each shipped Role with missing
// permissions: applying the Role grants all of them.
func (c *checker) reportMissing(missing []missingPermission) []Result {
	var results []Result

	for _, role := range []shippedRole{roles[machines], roles[evacuation]} {
		var ofRole []missingPermission

		for _, m := range missing {
			if roles[m.part] == role {
				ofRole = append(ofRole, m)
			}
		}

		if len(ofRole) > 0 {
			results = append(results, c.reportMissingRole(role, ofRole))
		}
	}

	return results
}

func (c *checker) reportMissingRole(role shippedRole, missing []missingPermission) Result {
	var (
		texts, effects, alternatives []string
		level                        = Warning
		reported                     = map[part]bool{}
	)

	for _, m := range missing {
		texts = append(texts, m.name()+" ("+strings.Join(m.verbs, ", ")+")")

		if reported[m.part] {
			continue
		}

		reported[m.part] = true
		effect, alternative, severe := c.effectOfMissing(m.part)
		effects = append(effects, effect)

		if alternative != "" {
			alternatives = append(alternatives, alternative)
		}

		if severe {
			level = Error
		}
	}

	return view{identity: c.driver}.result(checkPermission, level, "permissions in Namespace "+c.namespace,
		"missing: "+strings.Join(texts, ", ")+"; "+strings.Join(effects, "; "), strings.Join(append([]string{c.grant(role)}, alternatives...), "; or "))
}

// effectOfMissing returns the effect of missing permissions of a part, an alternative to granting
// them, and whether machines cannot be created or run without them.
func (c *checker) effectOfMissing(p part) (effect, alternative string, severe bool) {
	switch {
	case p == diagnosis:
		return "the causes of some failures cannot be determined", "", false
	case p == goldenImages && !c.usesGoldenImages():
		return "classes that import an image cannot be used, but these classes import none",
			"set providerSpec.disablePreAllocatedDataVolumes in classes that import an image", false
	case p == goldenImages:
		return "no golden image can be created for root volumes",
			"set providerSpec.disablePreAllocatedDataVolumes, so that each machine imports its own image", true
	case p == evacuation:
		return "drains of provider nodes never complete", "run the machine controller without --evacuation", true
	default:
		return "machines cannot be created or deleted", "", true
	}
}

// grant returns the commands that grant the driver a shipped Role in its namespace.
func (c *checker) grant(role shippedRole) string {
	command := "kubectl apply -k " + role.folder
	if c.namespace != shippedNamespace {
		command = fmt.Sprintf("set namespace: %s in %s/kustomization.yaml and run: %s", quoted(c.namespace), role.folder, command)
	}

	if c.driver.user == serviceAccounts+c.namespace+":"+shippedAccount {
		return command
	}

	return command + " && " + kubectlIn(c.namespace, "create rolebinding", role.role+"-driver") + " --role=" + role.role + " " + c.driver.subjectFlag()
}
