package preflight

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// part is a part of the driver's work that needs its own permissions.
type part int

const (
	// machines covers the management of machines, which every driver needs.
	machines part = iota
	// goldenImages covers creating and deleting the images that root volumes are cloned from.
	goldenImages
	// diagnosis covers finding the exact cause of a machine's failure.
	diagnosis
	// evacuation covers evacuating machines when provider nodes are drained.
	evacuation
)

// permission is a set of verbs on one resource that the driver
// needs in the namespace of the machines.
type permission struct {
	part     part
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
		{diagnosis, "", "pods", []string{"list"}},
		{diagnosis, "", "events", []string{"list"}},
		{evacuation, kubevirt, "virtualmachineinstances", []string{"list"}}, // Added to machines.
		{evacuation, kubevirt, "virtualmachineinstancemigrations", []string{"list", "watch", "create", "delete"}},
	}
}

// name returns the name of the resource in kubectl.
func (p *permission) name() string {
	if p.group == "" {
		return p.resource
	}

	return p.resource + "." + p.group
}

// checkPermissions reviews each verb separately: a review of all rules at once is incomplete if
// authorizers other than RBAC are configured.
func (c *checker) checkPermissions(ctx context.Context) []Result {
	if c.driver == nil { // The login failed, which was reported.
		return nil
	}

	var (
		reviews []check
		all     = permissions()
		missing = make([][]string, len(all))
	)

	for i, p := range all {
		if p.part != evacuation || c.evacuation {
			reviews = append(reviews, func(ctx context.Context) (results []Result) {
				missing[i], results = c.reviewVerbs(ctx, p)

				return results
			})
		}
	}

	results := concurrently(ctx, reviews)

	var incomplete []missingPermission

	for i, verbs := range missing {
		if len(verbs) > 0 {
			incomplete = append(incomplete, missingPermission{permission: all[i], verbs: verbs})
		}
	}

	return append(results, c.reportMissing(incomplete)...)
}

// reviewVerbs returns the verbs that the driver lacks, or the results if it lacks none.
func (c *checker) reviewVerbs(ctx context.Context, p permission) ([]string, []Result) {
	var (
		v       = view{identity: c.driver}
		subject = p.name() + purposes[p.part]
		missing []string
	)

	for _, verb := range p.verbs {
		allowed, err := c.driver.isAllowed(ctx, &authorizationv1.ResourceAttributes{
			Namespace: c.namespace, Verb: verb, Group: p.group, Resource: p.resource,
		})
		if err != nil {
			return nil, []Result{v.notChecked(checkPermission, subject, err,
				kubectlIn(c.namespace, "auth can-i", verb, p.name())+" --as="+quoted(c.driver.user))}
		}

		if !allowed {
			missing = append(missing, verb)
		}
	}

	if len(missing) > 0 {
		return missing, nil
	}

	return nil, []Result{v.ok(checkPermission, subject, "may "+strings.Join(p.verbs, ", "))}
}

// purposes are suffixes of the subject, since several parts may need the same kind.
var purposes = map[part]string{
	machines: "", goldenImages: ", for golden images", diagnosis: ", for diagnoses", evacuation: ", for --evacuation",
}

// subjectFlag returns the flag for the identity in kubectl create rolebinding.
func (i *identity) subjectFlag() string {
	if account, ok := strings.CutPrefix(i.user, serviceAccounts); ok {
		return "--serviceaccount=" + quoted(account)
	}

	return "--user=" + quoted(i.user) // Contains a placeholder if the user is unknown.
}

// isAllowed reports whether the identity has a permission.
func (i *identity) isAllowed(ctx context.Context, attributes *authorizationv1.ResourceAttributes) (bool, error) {
	review, err := ask(ctx, func(ctx context.Context) (*authorizationv1.SelfSubjectAccessReview, error) {
		return i.clients.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
	})
	if err != nil {
		return false, err
	}

	return review.Status.Allowed, nil
}
