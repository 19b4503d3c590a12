// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providercluster creates clients of provider clusters: the clusters that run the virtual
// machines of shoots. The controllers call it with the Secret from which the driver takes its
// kubeconfig too. It must not depend on why an object is read or written.
package providercluster

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// The kinds of networks: of Multus, OVN-Kubernetes, and Kube-OVN.
var (
	NetworkAttachmentDefinition = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}
	UserDefinedNetwork          = schema.GroupVersionKind{Group: "k8s.ovn.org", Version: "v1", Kind: "UserDefinedNetwork"}
	VPC                         = schema.GroupVersionKind{Group: "kubeovn.io", Version: "v1", Kind: "Vpc"}
	Subnet                      = schema.GroupVersionKind{Group: "kubeovn.io", Version: "v1", Kind: "Subnet"}
)

// ErrCredentials is the error of credentials that cannot be used. The text begins with the driver's
// token (api/reasons).
var ErrCredentials = errors.New("CredentialsRefused")

// Cluster is the provider cluster of one shoot, for one reconciliation.
type Cluster struct {
	// Client sends requests with the kubeconfig's identity. It reads without a cache. A request takes
	// at most 30 seconds, and all requests together at most two minutes, or five seconds while other
	// provider clusters are slow, see NewClients. A response that would take more than 1 MiB of memory
	// is refused: lists without a limit are read with Collect and ListMetadata.
	client.Client

	// Namespace is the namespace of the kubeconfig's context.
	Namespace string

	closeConnections func() // nil for clients of tests
}

// Factory creates the client of the provider cluster that a Secret describes.
type Factory func(ctx context.Context, seed client.Reader, ref corev1.SecretReference) (*Cluster, error)

// Clients creates the clients of one controller.
type Clients struct {
	servers transport.Servers
	places  places
}

// NewClients returns the Clients of a controller with that many workers. At most half of them wait for
// slow provider clusters: the others serve the shoots whose provider clusters respond.
func NewClients(servers transport.Servers, workers int) *Clients {
	return &Clients{servers: servers, places: newPlaces(workers)}
}

// New is the Factory of the controller. Errors do not quote the kubeconfig.
func (c *Clients) New(ctx context.Context, seed client.Reader, ref corev1.SecretReference) (*Cluster, error) {
	secret := &corev1.Secret{}
	if err := seed.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}

	if err := checkToken(secret); err != nil {
		return nil, err
	}

	raw := secret.Data[providerspec.SecretKeyKubeconfig]
	if len(raw) == 0 {
		return nil, fmt.Errorf("%w: the Secret with the credentials has no key %s; add the kubeconfig of the provider cluster under this key", ErrCredentials, providerspec.SecretKeyKubeconfig)
	}

	config, namespace, err := kubeconfig.RESTConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: invalid kubeconfig of the provider cluster: %w", ErrCredentials, err)
	}

	return c.connect(config, namespace, tokenOf(secret))
}

// Accepts reports whether the API server of a configuration accepts its credentials. Only the response
// Unauthorized is a refusal: a server that does not respond, or that does not know the request
// (Kubernetes before 1.28), says nothing about the credentials.
func (c *Clients) Accepts(ctx context.Context, config *rest.Config) bool {
	provider, err := c.connect(config, "", "")
	if err != nil {
		return true
	}

	defer provider.Close()

	return !apierrors.IsUnauthorized(provider.Create(ctx, &authenticationv1.SelfSubjectReview{}))
}

// connect returns the client of a configuration. token is that of a WorkloadIdentity, for errors.
func (c *Clients) connect(config *rest.Config, namespace string, token workloadToken) (*Cluster, error) {
	config.UserAgent = "gardener-extension-provider-kubevirt"

	options, closeConnections, err := clientOptions(config, c.servers)
	if err != nil {
		return nil, err
	}

	requests, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("create client of the provider cluster: %w", err)
	}

	bounded := newRequests(requests, c.places)
	bounded.token = token

	return &Cluster{Client: bounded, Namespace: namespace, closeConnections: closeConnections}, nil
}

// scheme is the scheme of all clients, which only read it.
var scheme = NewScheme()

// NewScheme returns a scheme with the kinds that the extension reads and writes in provider clusters,
// except for those of networks, which are unstructured. controller-runtime's fake client adds
// unstructured kinds to its scheme, so that each fake client needs its own.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, kubevirtv1.AddToScheme, cdiv1beta1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}

	return s
}

// mapper maps the kinds that the extension uses to resources, without requests for discovery. All clients only read it.
var mapper = newMapper()

func newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("Endpoints"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachine"),
		kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachineInstance"),
		kubevirtv1.SchemeGroupVersion.WithKind("KubeVirt"),
		cdiv1beta1.SchemeGroupVersion.WithKind("DataVolume"),
		UserDefinedNetwork,
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}

	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		corev1.SchemeGroupVersion.WithKind("Node"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
		cdiv1beta1.SchemeGroupVersion.WithKind("CDI"),
		VPC,
		Subnet,
	} {
		m.Add(kind, meta.RESTScopeRoot)
	}

	// Its plural is not the one that RESTMappers derive from a kind.
	networks := NetworkAttachmentDefinition.GroupVersion()
	m.AddSpecific(NetworkAttachmentDefinition, networks.WithResource("network-attachment-definitions"),
		networks.WithResource("network-attachment-definition"), meta.RESTScopeNamespace)

	return m
}
