// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Kubeconfigs are the kubeconfigs with all permissions, as paths of files.
type Kubeconfigs struct{ Garden, Seed, Provider, Target string }

// Kubeconfigs returns those of the clusters.
func (s *Seed) Kubeconfigs() Kubeconfigs {
	return Kubeconfigs{Garden: s.gardenKubeconfig, Seed: s.state.ControlKubeconfig, Provider: s.state.ProviderKubeconfig, Target: s.state.TargetKubeconfig}
}

// Kubectl returns the path of the lab's kubectl.
func (s *Seed) Kubectl() string { return s.state.Kubectl }

func providerScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, kubevirtv1.AddToScheme, cdiv1beta1.AddToScheme, snapshotv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}

	return scheme
}

// The names in the shipped manifests of the provider cluster.
const (
	shippedNamespace = "shoot-machines"
	serviceAccount   = "machine-controller"
)

// Account is a ServiceAccount of the provider cluster with the permissions of shipped manifests.
type Account struct {
	manifests, namespace string
	// identity is the subject of a WorkloadIdentity; empty for others.
	identity string
}

// AccountIn returns an account for the machines of shoots in one namespace.
func AccountIn(namespace string) Account {
	return Account{manifests: "provider-namespace", namespace: namespace}
}

// AccountForNamespaces returns an account that creates a namespace for each shoot.
func AccountForNamespaces() Account {
	return Account{manifests: "namespace-per-shoot", namespace: "gardener"}
}

// username is the name of the account for the API server.
func (a Account) username() string {
	return "system:serviceaccount:" + a.namespace + ":" + serviceAccount
}

// credentials applies the manifests of an account, and returns a kubeconfig with a new token of it. The
// token is valid until the returned Secret is deleted.
func (s *Seed) credentials(ctx context.Context, a Account) ([]byte, *corev1.Secret, error) {
	if err := s.applyAccount(ctx, a); err != nil {
		return nil, nil, err
	}

	if err := s.awaitPermission(ctx, a); err != nil {
		return nil, nil, err
	}

	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, GenerateName: boundSecret}}
	if err := s.Provider.Create(ctx, bound); err != nil {
		return nil, nil, fmt.Errorf("create the Secret of a token: %w", err)
	}

	token, err := s.token(ctx, a, bound)
	if err != nil {
		return nil, nil, err
	}

	kubeconfig, err := yaml.Marshal(kubeconfigOf(s.providerConfig, a.namespace, map[string]any{"token": token}))

	return kubeconfig, bound, err
}

// boundSecret begins the names of the Secrets to which tokens are bound.
const boundSecret = "credentials-"

func (s *Seed) token(ctx context.Context, a Account, bound *corev1.Secret) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(24 * time.Hour / time.Second)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID},
	}}

	err := s.Provider.SubResource("token").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: serviceAccount},
	}, request)

	return request.Status.Token, wrap(err, "request a token")
}

// awaitInvalid waits until the provider cluster refuses a kubeconfig.
func (s *Seed) awaitInvalid(ctx context.Context, kubeconfig []byte) error {
	const every, atMost = 500 * time.Millisecond, time.Minute

	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}

	c, err := client.New(config, client.Options{Scheme: providerScheme()})
	if err != nil {
		return err
	}

	return wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/version", Verb: "get"},
		}}

		return apierrors.IsUnauthorized(c.Create(ctx, review)), nil
	})
}

// applyAccount applies the manifests of an account, except for the quota: shoots of tests have
// different numbers of machines.
func (s *Seed) applyAccount(ctx context.Context, a Account) error {
	manifests, err := exec.CommandContext(ctx, s.state.Kubectl, "kustomize", filepath.Join(s.root, "extension", "kubernetes", a.manifests)).Output()
	if err != nil {
		return fmt.Errorf("render extension/kubernetes/%s: %w", a.manifests, err)
	}

	var documents []string

	for document := range strings.SplitSeq(strings.ReplaceAll(string(manifests), shippedNamespace, a.namespace), "\n---\n") {
		if !strings.Contains(document, "kind: ResourceQuota\n") && !strings.Contains(document, "kind: LimitRange\n") {
			documents = append(documents, document)
		}
	}

	return s.apply(ctx, s.state.ProviderKubeconfig, a.namespace, strings.ReplaceAll(strings.Join(documents, "\n---\n"), namedIdentity, a.identity))
}

// awaitPermission waits until the API server knows the new bindings.
func (s *Seed) awaitPermission(ctx context.Context, a Account) error {
	const every, atMost = 50 * time.Millisecond, time.Minute

	return wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: a.username(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb:      "create",
				Group:     kubevirtv1.GroupVersion.Group,
				Resource:  "virtualmachines",
				Namespace: a.namespace,
			},
		}}
		err := s.Provider.Create(ctx, review)

		return review.Status.Allowed, client.IgnoreNotFound(err)
	})
}

// genericKubeconfig returns the kubeconfig with which pods of the seed reach a shoot or the virtual garden
// cluster; their tokens come from gardener-resource-manager.
func genericKubeconfig(config *rest.Config) ([]byte, error) {
	return yaml.Marshal(kubeconfigOf(config, metav1.NamespaceSystem, map[string]any{"tokenFile": gardenerutils.PathShootToken}))
}

// kubeconfigOf returns a kubeconfig for the server of a configuration, with another user.
func kubeconfigOf(config *rest.Config, namespace string, user map[string]any) map[string]any {
	type object = map[string]any

	named := func(key string, value object) []object { return []object{{"name": "default", key: value}} }

	return object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "default",
		"contexts":        named("context", object{"cluster": "default", "user": "default", "namespace": namespace}),
		"clusters": named("cluster", object{
			"server": config.Host, "certificate-authority-data": base64.StdEncoding.EncodeToString(config.CAData),
		}),
		"users": named("user", user),
	}
}
