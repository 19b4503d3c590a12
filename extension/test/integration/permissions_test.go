// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// calls are requests of a program in one namespace, or in all if it is empty: the resource, with its
// group and subresource, and the verbs.
type calls struct {
	namespace, resource string
	verbs               string
}

// callsToProvider are the requests to the provider cluster of cloud-controller-manager (pkg/cloudprovider) and
// of the CSI driver 27b52aa2 (pkg/kubevirt/client.go). The namespace is that of the machines, if it is not empty.
var callsToProvider = map[string][]calls{
	"cloud-controller-manager": {
		{"machines", "virtualmachines.kubevirt.io", "get"},
		{"machines", "virtualmachineinstances.kubevirt.io", "get"},
		{"machines", "services", "get list watch create update delete"},
		{"machines", "pods", "list watch"},
		{"machines", "endpointslices.discovery.k8s.io", "list create update delete"},
		{"machines", "endpoints", "delete"},
	},
	"csi-driver-controller": {
		{"machines", "datavolumes.cdi.kubevirt.io", "get create delete"},
		{"machines", "virtualmachines.kubevirt.io", "get"},
		{"machines", "virtualmachineinstances.kubevirt.io", "get list"},
		{"machines", "virtualmachines/addvolume.subresources.kubevirt.io", "update"},
		{"machines", "virtualmachines/removevolume.subresources.kubevirt.io", "update"},
		{"machines", "virtualmachineinstances/removevolume.subresources.kubevirt.io", "update"},
		{"machines", "persistentvolumeclaims", "get patch"},
		{"", "persistentvolumes", "get"},
		{"machines", "volumesnapshots.snapshot.storage.k8s.io", "get list create delete"},
	},
}

// requireProviderPermissions requires that each program may send its requests to the provider cluster,
// and no others, except for those of all accounts of the namespace.
func requireProviderPermissions(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	everyone := rulesOf(t, clientOfDefault(t, shoot), shoot.ProviderNamespace)

	for program, allowed := range callsToProvider {
		c := clientWith(t, providerSecret(t, shoot, program))
		requireReviews(t, c, program, shoot.ProviderNamespace, allowed)

		own := rulesOf(t, c, shoot.ProviderNamespace).Difference(everyone)
		require.Equal(t, sets.List(inNamespace(allowed)), sets.List(own), program)
	}
}

// inNamespace returns the requests in the namespace of the machines, one for each verb.
func inNamespace(all []calls) sets.Set[string] {
	requests := sets.New[string]()

	for _, c := range all {
		for verb := range strings.FieldsSeq(c.verbs) {
			if c.namespace != "" {
				requests.Insert(verb + " " + c.resource)
			}
		}
	}

	return requests
}

// rulesOf returns what an account may do in a namespace.
func rulesOf(t *testing.T, c client.Client, namespace string) sets.Set[string] {
	t.Helper()

	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	require.NoError(t, c.Create(t.Context(), review))

	requests := sets.New[string]()

	for _, r := range review.Status.ResourceRules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				requests.Insert(strings.TrimSuffix(verb+" "+resource+"."+r.APIGroups[0], "."))
			}
		}
	}

	return requests
}

// clientOfDefault returns a client with the default account of the namespace, which has no permissions
// of its own.
func clientOfDefault(t *testing.T, shoot *seed.Botanist) client.Client {
	t.Helper()

	request := &authenticationv1.TokenRequest{}
	require.NoError(t, theSeed.Provider.SubResource("token").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shoot.ProviderNamespace, Name: "default"}}, request))

	kubeconfig, err := clientcmd.Load(shoot.Kubeconfig)
	require.NoError(t, err)

	return clientFor(t, kubeconfig, request.Status.Token)
}

// clientWith returns a client for the provider cluster with the Secret of a program.
func clientWith(t *testing.T, secret *corev1.Secret) client.Client {
	t.Helper()

	kubeconfig, err := clientcmd.Load(secret.Data["kubeconfig"])
	require.NoError(t, err)

	user := kubeconfig.AuthInfos[kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo]
	require.Equal(t, &clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/provider/token", Extensions: user.Extensions}, user)

	return clientFor(t, kubeconfig, string(secret.Data["token"]))
}

// clientFor returns a client for the server of a kubeconfig with a token.
func clientFor(t *testing.T, kubeconfig *clientcmdapi.Config, token string) client.Client {
	t.Helper()

	kubeconfig.AuthInfos[kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo] = &clientcmdapi.AuthInfo{Token: token}

	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	require.NoError(t, err)

	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)

	return c
}

// requireAccount requires that the token in a Secret is valid.
func requireAccount(t *testing.T, shoot *seed.Botanist, secret *corev1.Secret) {
	t.Helper()
	requireReviews(t, clientWith(t, secret), secret.Name, shoot.ProviderNamespace, []calls{{"machines", "virtualmachineinstances.kubevirt.io", "get"}})
}

// callsToShoot are the requests to the shoot of cloud-controller-manager (k8s.io/cloud-provider v0.36.3, pkg/cloudprovider)
// and of the program that does not run in the lab (kubevirt/csi-driver 27b52aa2). requireNeededPermissions has the others.
var callsToShoot = map[string][]calls{
	"cloud-controller-manager": {
		{"", "nodes", "get list watch update patch delete"},
		{"", "nodes/status", "patch"},
		{"", "services", "list watch"},
		{"", "services/status", "patch"},
		{"", "endpointslices.discovery.k8s.io", "list watch"},
		{"", "events", "create patch"},
		{"", "tokenreviews.authentication.k8s.io", "create"},
		{"", "subjectaccessreviews.authorization.k8s.io", "create"},
		{"kube-system", "leases.coordination.k8s.io cloud-controller-manager", "create get update"},
		{"kube-system", "configmaps extension-apiserver-authentication", "get list watch"},
	},
	"csi-driver-controller": {{"", "volumesnapshotclasses.snapshot.storage.k8s.io", "list"}},
	"csi-driver-node":       {{"", "nodes", "get"}},
}

// notToShoot are requests that none of the programs sends.
var notToShoot = []calls{
	{"", "secrets", "get list"},
	{"", "pods", "create delete"},
	{"", "serviceaccounts/token", "create"},
	{"", "clusterroles.rbac.authorization.k8s.io", "create"},
	{"kube-system", "leases.coordination.k8s.io kube-controller-manager", "get update"},
}

// requireShootPermissions requires the same for the shoot.
func requireShootPermissions(t *testing.T, _ *seed.Botanist) {
	t.Helper()

	for program, allowed := range callsToShoot {
		user := "system:serviceaccount:kube-system:" + program
		requireSubjectReviews(t, user, allowed, true)
		requireSubjectReviews(t, user, notToShoot, false)
	}
}

func requireReviews(t *testing.T, c client.Client, program, namespace string, all []calls) {
	t.Helper()
	eachCall(all, func(a *authorizationv1.ResourceAttributes) {
		if a.Namespace == "machines" {
			a.Namespace = namespace
		}

		eventually(t, func(ctx context.Context) (bool, string) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
			if err := c.Create(ctx, review); err != nil {
				return false, program + ": " + err.Error()
			}

			return review.Status.Allowed, describe(program, a, true)
		})
	})
}

func requireSubjectReviews(t *testing.T, user string, all []calls, allowed bool) {
	t.Helper()
	eachCall(all, func(a *authorizationv1.ResourceAttributes) {
		eventually(t, func(ctx context.Context) (bool, string) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: a}}
			if err := theSeed.Target.Create(ctx, review); err != nil {
				return false, err.Error()
			}

			return review.Status.Allowed == allowed, describe(user, a, allowed)
		})
	})
}

// eachCall calls check for each verb.
func eachCall(all []calls, check func(*authorizationv1.ResourceAttributes)) {
	for _, c := range all {
		resource, name, _ := strings.Cut(c.resource, " ")
		resource, group, _ := strings.Cut(resource, ".")
		resource, sub, _ := strings.Cut(resource, "/")

		for verb := range strings.FieldsSeq(c.verbs) {
			attributes := &authorizationv1.ResourceAttributes{
				Namespace:   c.namespace,
				Group:       group,
				Resource:    resource,
				Subresource: sub,
				Name:        name,
				Verb:        verb,
			}
			if verb == "create" {
				attributes.Name = "" // RBAC cannot know it.
			}

			check(attributes)
		}
	}
}

func describe(user string, a *authorizationv1.ResourceAttributes, allowed bool) string {
	text, _ := json.Marshal(map[string]any{"user": user, "request": a, "wantAllowed": allowed}) //nolint:errchkjson // strings

	return string(text)
}

func encode(t *testing.T, object any) []byte {
	t.Helper()

	raw, err := json.Marshal(object)
	require.NoError(t, err)

	return raw
}
