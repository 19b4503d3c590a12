package integration

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// An API server reads Roles, bindings and webhooks from caches, so changes take effect with a small
// delay. The functions of this file wait for that.

// right is a right that an account has, or lacks, in a namespace of a cluster.
type right struct {
	cluster            kubernetes.Interface
	namespace, account string

	verb, group, resource string
}

// driverRight is a right of the driver's account in the provider cluster.
func (s *shoot) driverRight(verb, group, resource string) right {
	return right{s.kube, s.ProviderNamespace, "machine-controller", verb, group, resource}
}

// await waits until the API server grants or denies the right.
func (r right) await(t *testing.T, granted bool) {
	t.Helper()

	user := "system:serviceaccount:" + r.namespace + ":" + r.account
	what := map[bool]string{true: " may ", false: " may not "}[granted] + r.verb + " " + r.resource
	eventually(t, user+what, func(ctx context.Context) (bool, error) {
		review, err := r.cluster.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: r.verb, Group: r.group, Resource: r.resource,
			}},
		}, metav1.CreateOptions{})

		return err == nil && review.Status.Allowed == granted, err
	})
}

// breakCreation breaks the webhook for the shoot's new VirtualMachines.
func breakCreation(t *testing.T, s *shoot) {
	t.Helper()
	breakWebhook(admissionv1.Create, "kubevirt.io", "virtualmachines")(t, s)
	s.awaitWebhook(t, "failures.example.com")
}

// awaitWebhook waits until the webhook is called for the shoot's new VirtualMachines.
func (s *shoot) awaitWebhook(t *testing.T, name string) {
	t.Helper()

	probe := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted), Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}
	eventually(t, "the webhook "+name+" is in force", func(ctx context.Context) (bool, error) {
		_, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})

		return err != nil && strings.Contains(err.Error(), name), nil
	})
}
