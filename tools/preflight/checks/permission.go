// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shippedRole is a Role in this repository, in a folder that kubectl apply -k applies.
type shippedRole struct {
	folder, name string
}

var (
	machineRole    = shippedRole{"kubernetes/provider-namespace", "machine-controller"}
	evacuationRole = shippedRole{"kubernetes/evacuation/provider-namespace", "machine-controller-evacuation"}
)

const (
	// shippedNamespace is the namespace in the kustomizations, shippedAccount the ServiceAccount that
	// they bind the Roles to.
	shippedNamespace, shippedAccount = "shoot-machines", "machine-controller"
)

// part is a part of the driver's work that needs its own permissions, granted by a shipped Role.
type part struct {
	role shippedRole
	// purpose is a suffix of the subject, since several parts need the same resource.
	purpose string
	// level and effect are those of missing permissions, and alternative is one to granting them.
	level               Level
	effect, alternative string
}

var (
	machines     = &part{role: machineRole, level: Error, effect: "machines cannot be created or deleted"}
	goldenImages = &part{
		role:        machineRole,
		purpose:     ", for golden images",
		level:       Error,
		effect:      "no golden image can be created for classes that import an image",
		alternative: "set providerSpec.disablePreAllocatedDataVolumes, so that each machine imports its own image",
	}
	diagnosis  = &part{role: machineRole, purpose: ", for diagnoses", level: Warning, effect: "the causes of some failures cannot be determined"}
	evacuation = &part{
		role:        evacuationRole,
		purpose:     ", for --evacuation",
		level:       Error,
		effect:      "drains of provider nodes never complete",
		alternative: "run the machine controller without --evacuation",
	}
)

// permission is a set of verbs on one resource that the driver
// needs in the namespace of the machines.
type permission struct {
	part     *part
	group    string
	resource string
	verbs    []string
}

// permissions returns all permissions that the driver uses on the provider cluster.
// kubernetes/provider-namespace and kubernetes/evacuation grant exactly these.
func permissions() []permission {
	const kubevirt, cdi = "kubevirt.io", "cdi.kubevirt.io"

	return []permission{
		{machines, kubevirt, "virtualmachines", []string{"get", "list", "watch", "create", "delete"}},
		{machines, kubevirt, "virtualmachineinstances", []string{"get", "watch", "delete"}},
		{machines, "", "secrets", []string{"get", "create", "update", "deletecollection"}},
		{machines, cdi, "datavolumes", []string{"get", "list", "deletecollection"}},
		{goldenImages, cdi, "datavolumes", []string{"create", "delete"}},
		{diagnosis, "", "persistentvolumeclaims", []string{"get"}},
		{diagnosis, "", "pods", []string{"list"}},
		{diagnosis, "", "events", []string{"list"}},
		{evacuation, kubevirt, "virtualmachineinstances", []string{"list"}}, // Added to machines.
		{evacuation, kubevirt, "virtualmachineinstancemigrations", []string{"list", "watch", "create", "delete"}},
	}
}

// name returns the name of the resource in kubectl.
func (p *permission) name() string {
	return schema.GroupResource{Group: p.group, Resource: p.resource}.String()
}

// checkPermissions reviews each verb separately: a review of all rules at once is incomplete if
// authorizers other than RBAC are configured.
func checkPermissions(ctx context.Context, r *reader, in *scope) []Result {
	missing := slices.DeleteFunc(permissions(), func(p permission) bool { return p.part == evacuation && !in.evacuation })
	reviews := make([]func(context.Context) []Result, len(missing))

	for i := range missing {
		reviews[i] = func(ctx context.Context) []Result { return reviewVerbs(ctx, r, &missing[i]) }
	}

	results := concurrently(ctx, reviews)
	clonesImages := slices.ContainsFunc(in.classes, func(c *class) bool { return c.image != nil })

	for _, role := range []shippedRole{machineRole, evacuationRole} {
		results = append(results, reportMissing(r, role, missing, clonesImages)...)
	}

	return results
}

// reviewVerbs reduces a permission to the verbs that the driver lacks. If it lacks none, or they
// cannot be reviewed, the function returns the results.
func reviewVerbs(ctx context.Context, r *reader, p *permission) []Result {
	s := r.about(p.name() + p.part.purpose)
	needed := p.verbs
	p.verbs = nil

	for _, verb := range needed {
		allowed, err := r.allows(ctx, &authorizationv1.ResourceAttributes{Namespace: r.namespace(), Verb: verb, Group: p.group, Resource: p.resource})
		if err != nil {
			p.verbs = nil

			return s.notChecked(err, kubectlIn(r.namespace(), "auth can-i", verb, p.name())+" --as="+quoted(r.User))
		}

		if !allowed {
			p.verbs = append(p.verbs, verb)
		}
	}

	if len(p.verbs) > 0 {
		return nil
	}

	return s.ok("may " + strings.Join(needed, ", "))
}

// reportMissing returns one result for a shipped Role with missing permissions, since applying the Role grants all
// of them.
func reportMissing(r *reader, role shippedRole, missing []permission, clonesImages bool) []Result {
	var texts, effects []string

	remedies := []string{grant(r, role)}
	level := Warning

	for _, p := range missing {
		if p.part.role != role || len(p.verbs) == 0 {
			continue
		}

		texts = append(texts, p.name()+" ("+strings.Join(p.verbs, ", ")+")")

		if slices.Contains(effects, p.part.effect) {
			continue
		}

		effects = append(effects, p.part.effect)

		if p.part.alternative != "" {
			remedies = append(remedies, p.part.alternative)
		}

		if p.part.level == Error && (p.part != goldenImages || clonesImages) {
			level = Error
		}
	}

	if len(texts) == 0 {
		return nil
	}

	return r.about("permissions in Namespace "+r.namespace()).result(level,
		"missing: "+strings.Join(texts, ", ")+"; "+strings.Join(effects, "; "), strings.Join(remedies, "; or "))
}

// grant returns the commands that grant the driver a shipped Role in its namespace.
func grant(r *reader, role shippedRole) string {
	command := "kubectl apply -k " + role.folder
	if r.namespace() != shippedNamespace {
		command = fmt.Sprintf("set namespace: %s in %s/kustomization.yaml and run: %s", quoted(r.namespace()), role.folder, command)
	}

	if r.User == serviceAccounts+r.namespace()+":"+shippedAccount {
		return command
	}

	return command + " && " + kubectlIn(r.namespace(), "create rolebinding", role.name+"-driver") + " --role=" + role.name + " " + subjectFlag(r.User)
}

// subjectFlag returns the flag for a user in kubectl create rolebinding.
func subjectFlag(user string) string {
	if account, ok := strings.CutPrefix(user, serviceAccounts); ok {
		return "--serviceaccount=" + quoted(account)
	}

	return "--user=" + quoted(user) // Contains a placeholder if the user is unknown.
}
