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

// right is a set of verbs on one kind of object that the
// driver needs in the namespace of the machines.
type right struct {
	part     part
	group    string
	resource string
	verbs    []string
}

// rights returns all permissions that the driver uses on the provider cluster.
// kubernetes/provider-namespace and kubernetes/evacuation grant exactly these.
func rights() []right {
	const kubevirt, cdi = "kubevirt.io", "cdi.kubevirt.io"

	return []right{
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
func (r *right) name() string {
	if r.group == "" {
		return r.resource
	}

	return r.resource + "." + r.group
}

// checkPermissions reviews each verb separately: a review of all rules at once is incomplete if
// authorizers other than RBAC are configured.
func (s *site) checkPermissions(ctx context.Context) []Result {
	if s.driver == nil { // The login failed, which was reported.
		return nil
	}

	var (
		asked   []check
		all     = rights()
		missing = make([][]string, len(all))
	)

	for i, r := range all {
		if r.part != evacuation || s.evacuation {
			asked = append(asked, func(ctx context.Context) (results []Result) {
				missing[i], results = s.checkRight(ctx, r)

				return results
			})
		}
	}

	results := together(ctx, asked)

	var lacking []missingRight

	for i, verbs := range missing {
		if len(verbs) > 0 {
			lacking = append(lacking, missingRight{right: all[i], verbs: verbs})
		}
	}

	return append(results, s.withoutRights(lacking)...)
}

// checkRight returns the verbs that the driver lacks, or the results if it lacks none.
func (s *site) checkRight(ctx context.Context, r right) ([]string, []Result) {
	var (
		v       = view{identity: s.driver}
		subject = r.name() + purposes[r.part]
		missing []string
	)

	for _, verb := range r.verbs {
		allowed, err := s.driver.may(ctx, &authorizationv1.ResourceAttributes{
			Namespace: s.namespace, Verb: verb, Group: r.group, Resource: r.resource,
		})
		if err != nil {
			return nil, []Result{v.unseen(checkPermission, subject, err,
				kubectlIn(s.namespace, "auth can-i", verb, r.name())+" --as="+quoted(s.driver.user))}
		}

		if !allowed {
			missing = append(missing, verb)
		}
	}

	if len(missing) > 0 {
		return missing, nil
	}

	return nil, []Result{v.ok(checkPermission, subject, "may "+strings.Join(r.verbs, ", "))}
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

// may reports whether the identity has a permission.
func (i *identity) may(ctx context.Context, attributes *authorizationv1.ResourceAttributes) (bool, error) {
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
