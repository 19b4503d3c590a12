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

// missingRight is a permission of which the driver lacks some verbs.
type missingRight struct {
	right

	verbs []string
}

// withoutRights returns one result for each shipped Role with missing
// permissions: applying the Role grants all of them.
func (s *site) withoutRights(missing []missingRight) []Result {
	var results []Result

	for _, role := range []shippedRole{roles[machines], roles[evacuation]} {
		var lacking []missingRight

		for _, m := range missing {
			if roles[m.part] == role {
				lacking = append(lacking, m)
			}
		}

		if len(lacking) > 0 {
			results = append(results, s.withoutRole(role, lacking))
		}
	}

	return results
}

func (s *site) withoutRole(role shippedRole, missing []missingRight) Result {
	var (
		texts, effects, ways []string
		level                = Warning
		told                 = map[part]bool{}
	)

	for _, m := range missing {
		texts = append(texts, m.name()+" ("+strings.Join(m.verbs, ", ")+")")

		if told[m.part] {
			continue
		}

		told[m.part] = true
		effect, way, severe := s.withoutPart(m.part)
		effects = append(effects, effect)

		if way != "" {
			ways = append(ways, way)
		}

		if severe {
			level = Error
		}
	}

	return view{identity: s.driver}.result(checkPermission, level, "rights in Namespace "+s.namespace,
		"missing: "+strings.Join(texts, ", ")+"; "+strings.Join(effects, "; "), strings.Join(append([]string{s.grant(role)}, ways...), "; or "))
}

// withoutPart returns the effect of lacking the permissions of a part, an alternative to granting
// them, and whether machines cannot be created or run without them.
func (s *site) withoutPart(p part) (effect, instead string, severe bool) {
	switch {
	case p == diagnosis:
		return "the cause of a machine's failure is not always found", "", false
	case p == goldenImages && !s.usesGoldenImages():
		return "a class that imports an image cannot be used; these classes import none",
			"set providerSpec.disablePreAllocatedDataVolumes in classes that import an image", false
	case p == goldenImages:
		return "no golden image can be created for root volumes",
			"set providerSpec.disablePreAllocatedDataVolumes, and each machine imports its own image", true
	case p == evacuation:
		return "drains of provider nodes never end", "run the machine controller without --evacuation", true
	default:
		return "machines cannot be created and deleted", "", true
	}
}

// grant returns the commands that grant the driver a shipped Role in its namespace.
func (s *site) grant(role shippedRole) string {
	command := "kubectl apply -k " + role.folder
	if s.namespace != shippedNamespace {
		command = fmt.Sprintf("set namespace: %s in %s/kustomization.yaml and run: %s", quoted(s.namespace), role.folder, command)
	}

	if s.driver.user == serviceAccounts+s.namespace+":"+shippedAccount {
		return command
	}

	return command + " && " + kubectlIn(s.namespace, "create rolebinding", role.role+"-driver") + " --role=" + role.role + " " + s.driver.subjectFlag()
}
