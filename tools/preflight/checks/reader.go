// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// requestTimeout bounds one request, and dryRunTimeout one that
	// webhooks take part in: each may take 10 s.
	requestTimeout, dryRunTimeout = 10 * time.Second, 30 * time.Second
	// parallel is the maximum number of concurrent checks, and of concurrent requests of one check.
	parallel = 8
	// requestsPerSecond and burst limit the requests to the provider cluster.
	requestsPerSecond, burst = 100, 200
	// maxObjects bounds lists of kinds that have few objects, and maxObjectMemory their memory, in bytes.
	maxObjects, maxObjectMemory = 500, 32 << 20
	// nodesPerPage keeps one response within the bounds of pkg/providerapi: nodes list their images.
	nodesPerPage = 50
	// maxNodesCost bounds the memory that the pages of all nodes take, one after the other: 5,000 nodes with
	// their images take a third of it. maxNodesMemory bounds what is kept of them, of which 5,000 nodes take
	// half. Only the command mcm-kubevirt reads them.
	maxNodesCost, maxNodesMemory = 8 << 30, 32 << 20
	// maxCached is the maximum number of cached responses. Those about one object have at most 1 MiB; the
	// classes of a shoot refer to a few dozen objects.
	maxCached = 200
)

// Identity is a user of the provider cluster that sends requests.
type Identity struct {
	// Name is Driver or Admin.
	Name string `json:"name"`
	// From is the origin of its kubeconfig.
	From string `json:"from"`
	// Server is the API server in the kubeconfig. The same server may have several names.
	Server string `json:"server,omitempty"`
	// User is its user name in the provider cluster; empty if the server does not return it.
	User string `json:"user,omitempty"`
}

const (
	// Driver is the identity whose permissions are checked, and which creates machines.
	Driver = "driver"
	// Admin is the identity that reads objects which the driver does not need to see.
	Admin = "admin"
)

// errNotInstalled means that the API server does not know the type, or that the one object that
// represents the installation does not exist.
var errNotInstalled = errors.New("not installed")

// reader reads a provider cluster as one identity. It sends each request once, and is safe for concurrent use.
// The texts of the identity are not sanitized.
type reader struct {
	Identity

	// clients are nil if the kubeconfig is invalid. Their namespace is that of the machines.
	clients *providerapi.Clients

	mu     sync.Mutex
	cached map[any]any
}

// namespace returns the namespace of the machines.
func (r *reader) namespace() string { return r.clients.Namespace }

// once returns the response to the first request with a key. Concurrent callers wait for it.
func once[T any](r *reader, key any, send func() (T, error)) (T, error) {
	r.mu.Lock()

	known, ok := r.cached[key].(func() (T, error))
	if !ok {
		known = sync.OnceValues(send)

		if r.cached == nil {
			r.cached = map[any]any{}
		}

		if len(r.cached) < maxCached {
			r.cached[key] = known
		}
	}

	r.mu.Unlock()

	return known()
}

// listOnce lists the objects of a kind that has few of them, up to maxObjects.
func listOnce[O any, L runtime.Object](ctx context.Context, r *reader, key string, from providerapi.Lister[L]) ([]O, error) {
	return once(r, key, func() ([]O, error) {
		return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) ([]O, error) {
			return providerapi.Some[O](ctx, from, providerapi.List{MaxKept: maxObjectMemory}, maxObjects)
		})
	})
}

// get reads one object.
func get[T any](ctx context.Context, read func(context.Context, string, metav1.GetOptions) (T, error), name string) (T, error) {
	return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) (T, error) {
		return read(ctx, name, metav1.GetOptions{})
	})
}

// review creates a review, which the API server answers and does not persist.
func review[T any](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), question T) (T, error) {
	return providerapi.Once(ctx, requestTimeout, func(ctx context.Context) (T, error) {
		return create(ctx, question, metav1.CreateOptions{})
	})
}

// dryRun makes the server validate an object as strictly as the driver's requests do, without
// persisting it.
func dryRun[T any](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), object T) (T, error) {
	return providerapi.Once(ctx, dryRunTimeout, func(ctx context.Context) (T, error) {
		return create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	})
}

// concurrently runs functions concurrently, and returns their results in the order of the functions.
func concurrently[T any](ctx context.Context, tasks []func(context.Context) []T) []T {
	var running errgroup.Group

	running.SetLimit(parallel)

	results := make([][]T, len(tasks))

	for i, task := range tasks {
		running.Go(func() error {
			results[i] = task(ctx)

			return nil
		})
	}

	_ = running.Wait() // There are no errors.

	return slices.Concat(results...)
}

// unknownType reports whether the API server does not know the type: its CRD or API is not
// installed. providerapi.Absent reports the other 404, for an object of a known type.
func unknownType(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// only returns the object that represents an installation.
func only[T any](found []T, err error) (*T, error) {
	switch {
	case unknownType(err), err == nil && len(found) == 0:
		return nil, errNotInstalled
	case err != nil:
		return nil, err
	default:
		return &found[0], nil
	}
}

// kubeVirt returns the KubeVirt object. Every authenticated user may list them
// (pkg/virt-operator/resource/generate/rbac/cluster.go).
func (r *reader) kubeVirt(ctx context.Context) (*kubevirtv1.KubeVirt, error) {
	return only(listOnce[kubevirtv1.KubeVirt](ctx, r, "kubevirts", r.clients.KubeVirt.KubevirtV1().KubeVirts(metav1.NamespaceAll)))
}

func (r *reader) cdi(ctx context.Context) (*cdiv1beta1.CDI, error) {
	return only(listOnce[cdiv1beta1.CDI](ctx, r, "cdis", r.clients.CDI.CdiV1beta1().CDIs()))
}

// version returns the version of the API server. By default, every authenticated user may read it
// (ClusterRole system:public-info-viewer).
func (r *reader) version(ctx context.Context) (*version.Version, error) {
	raw, err := providerapi.Once(ctx, requestTimeout, func(ctx context.Context) ([]byte, error) {
		return r.clients.Kubernetes.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	})
	if err != nil {
		return nil, err
	}

	var info apiversion.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return nil, err
	}

	// The API server's version may have a suffix, such as +k3s1.
	return version.ParseGeneric(info.GitVersion)
}

func (r *reader) storageClasses(ctx context.Context) ([]storagev1.StorageClass, error) {
	return listOnce[storagev1.StorageClass](ctx, r, "storageclasses", r.clients.Kubernetes.StorageV1().StorageClasses())
}

// storageProfiles returns CDI's StorageProfiles, which every authenticated user may read
// (pkg/operator/resources/cluster/rbac.go of CDI).
func (r *reader) storageProfiles(ctx context.Context) ([]cdiv1beta1.StorageProfile, error) {
	return listOnce[cdiv1beta1.StorageProfile](ctx, r, "storageprofiles", r.clients.CDI.CdiV1beta1().StorageProfiles())
}

func (r *reader) quotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	return listOnce[corev1.ResourceQuota](ctx, r, "resourcequotas", r.clients.Kubernetes.CoreV1().ResourceQuotas(r.namespace()))
}

func (r *reader) webhooks(ctx context.Context) ([]admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return listOnce[admissionregistrationv1.MutatingWebhookConfiguration](ctx, r, "mutatingwebhookconfigurations",
		r.clients.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations())
}

// nodes returns the parts of all nodes that nodePart selects.
func (r *reader) nodes(ctx context.Context) ([]corev1.Node, error) {
	return once(r, "nodes", func() ([]corev1.Node, error) {
		return providerapi.Collect(ctx, r.clients, r.clients.Kubernetes.CoreV1().Nodes(), providerapi.List{
			Description: "nodes",
			PerPage:     nodesPerPage,
			MaxCost:     maxNodesCost,
			MaxKept:     maxNodesMemory,
		}, func(n *corev1.Node) (corev1.Node, bool) { return nodePart(n), true })
	})
}

// nodePart returns the name, labels, taints, allocatable resources and readiness of a node.
func nodePart(n *corev1.Node) corev1.Node {
	part := corev1.Node{
		Spec:   corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: corev1.NodeStatus{Allocatable: n.Status.Allocatable},
	}
	part.Name = n.Name
	part.Labels = n.Labels
	part.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })

	return part
}

// object reads an object: Namespaces, claims, DataSources, ResourceClaimTemplates and instancetypes as a whole, and no more than the
// metadata of others, such as Secrets.
func (r *reader) object(ctx context.Context, of *reference) (metav1.Object, error) {
	return once(r, of.subject(), func() (metav1.Object, error) {
		switch kubernetes := r.clients.Kubernetes.CoreV1(); of.kind {
		case kindNamespace:
			return get(ctx, kubernetes.Namespaces().Get, of.name)
		case kindClaim:
			return get(ctx, kubernetes.PersistentVolumeClaims(of.namespace).Get, of.name)
		case kindSource:
			return get(ctx, r.clients.CDI.CdiV1beta1().DataSources(of.namespace).Get, of.name)
		case kindClaimTemplate:
			return get(ctx, r.clients.Kubernetes.ResourceV1().ResourceClaimTemplates(of.namespace).Get, of.name)
		case kindInstancetype:
			return get(ctx, r.clients.KubeVirt.InstancetypeV1beta1().VirtualMachineInstancetypes(of.namespace).Get, of.name)
		case kindClusterInstancetype:
			return get(ctx, r.clients.KubeVirt.InstancetypeV1beta1().VirtualMachineClusterInstancetypes().Get, of.name)
		default:
			return get(ctx, func(ctx context.Context, name string, options metav1.GetOptions) (*metav1.PartialObjectMetadata, error) {
				return r.clients.Metadata.Resource(of.kind.resource).Namespace(of.namespace).Get(ctx, name, options)
			}, of.name)
		}
	})
}

// instancetype returns the spec of an instancetype; an empty one if the reference has no name, or if it cannot be
// read, which the check of instancetypes reports.
func (r *reader) instancetype(ctx context.Context, of *reference) *instancetypev1beta1.VirtualMachineInstancetypeSpec {
	if of.name != "" {
		if found, err := r.object(ctx, of); err == nil {
			switch found := found.(type) {
			case *instancetypev1beta1.VirtualMachineInstancetype:
				return &found.Spec
			case *instancetypev1beta1.VirtualMachineClusterInstancetype:
				return &found.Spec
			}
		}
	}

	return &instancetypev1beta1.VirtualMachineInstancetypeSpec{}
}

// allows reports whether the identity has the permission.
func (r *reader) allows(ctx context.Context, permission *authorizationv1.ResourceAttributes) (bool, error) {
	answer, err := review(ctx, r.clients.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: permission},
	})

	return err == nil && answer.Status.Allowed, err
}

// reviewAccess reviews a permission of another account.
func (r *reader) reviewAccess(ctx context.Context, question *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return review(ctx, r.clients.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create, question)
}

// The dry runs of the objects of a machine return the responses.

func (r *reader) tryImage(ctx context.Context, image *cdiv1beta1.DataVolume) (*cdiv1beta1.DataVolume, error) {
	return dryRun(ctx, r.clients.CDI.CdiV1beta1().DataVolumes(r.namespace()).Create, image)
}

// trySecret keeps client-go from logging the request.
func (r *reader) trySecret(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	return dryRun(klog.NewContext(ctx, logr.Discard()), r.clients.Kubernetes.CoreV1().Secrets(r.namespace()).Create, secret)
}

func (r *reader) tryVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachine, error) {
	return dryRun(ctx, r.clients.KubeVirt.KubevirtV1().VirtualMachines(r.namespace()).Create, vm)
}

// leftovers returns the objects of a kind that have been in deletion for too long.
func (r *reader) leftovers(ctx context.Context, of kind, labels string, now time.Time) ([]metav1.ObjectMeta, error) {
	return providerapi.Leftovers(ctx, r.clients, of.resource, labels, now)
}

// goldenImages returns the names of the golden images of clusters.
func (r *reader) goldenImages(ctx context.Context, clusters []string) ([]string, error) {
	return images.List(ctx, r.clients, clusters, func(image metav1.Object) (string, bool) { return image.GetName(), true })
}

// imagesOfMachines returns the names of the golden images that VirtualMachines were created from.
func (r *reader) imagesOfMachines(ctx context.Context) ([]string, error) {
	return images.OfMachines(ctx, r.clients, func(string, metav1.Object) bool { return true })
}
