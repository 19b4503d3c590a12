package preflight

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// part is a part of the driver's work that needs rights of its own.
type part int

const (
	// machines is what no driver can do without.
	machines part = iota
	// goldenImages is making and removing the images that root volumes are cloned from.
	goldenImages
	// diagnosis is saying more exactly what is wrong.
	diagnosis
	// evacuation is acting when provider nodes are drained.
	evacuation
)

// right is what the driver may have to do to the objects of one kind, in the namespace of the machines.
type right struct {
	part     part
	group    string
	resource string
	verbs    []string
}

// rights are all that the driver uses on the provider cluster. kubernetes/provider-namespace and kubernetes/evacuation grant exactly
// these.
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
		{evacuation, kubevirt, "virtualmachineinstances", []string{"list"}}, // Beside what machines need.
		{evacuation, kubevirt, "virtualmachineinstancemigrations", []string{"list", "watch", "create", "delete"}},
	}
}

// name is what kubectl calls the resource.
func (r *right) name() string {
	if r.group == "" {
		return r.resource
	}

	return r.resource + "." + r.group
}

// checkPermissions asks for each verb by itself: a review of all rules at once is incomplete where others than RBAC decide too.
func (s *site) checkPermissions(ctx context.Context) []Result {
	if s.driver == nil { // It could not log in, which was said.
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

// checkRight returns the verbs that the driver lacks, or what there is to say if it lacks none.
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

// purposes are added to the subject, since a kind may be there for several.
var purposes = map[part]string{
	machines: "", goldenImages: ", for golden images", diagnosis: ", for diagnoses", evacuation: ", for --evacuation",
}

// subjectFlag is how kubectl create rolebinding names the identity.
func (i *identity) subjectFlag() string {
	if account, ok := strings.CutPrefix(i.user, serviceAccounts); ok {
		return "--serviceaccount=" + quoted(account)
	}

	return "--user=" + quoted(i.user) // Which leaves it to be filled in if it is not known.
}

// may asks whether the identity has a right.
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
