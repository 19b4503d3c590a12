package checks

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// kind is a kind of object that a class refers to.
type kind struct {
	name     string
	resource schema.GroupVersionResource
}

// kubectl returns the name of the kind in kubectl.
func (k kind) kubectl() string {
	return k.resource.GroupResource().String()
}

var (
	kindClaim    = kind{"PersistentVolumeClaim", corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")}
	kindSecret   = kind{"Secret", corev1.SchemeGroupVersion.WithResource("secrets")}
	kindConfig   = kind{"ConfigMap", corev1.SchemeGroupVersion.WithResource("configmaps")}
	kindPriority = kind{"PriorityClass", schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")}
	kindVolume   = kind{"DataVolume", cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes")}
	kindSource   = kind{"DataSource", cdiv1beta1.SchemeGroupVersion.WithResource("datasources")}
	kindSnapshot = kind{"VolumeSnapshot", schema.GroupVersionResource{
		Group:    "snapshot.storage.k8s.io",
		Version:  "v1",
		Resource: "volumesnapshots",
	}}
	kindNetwork = kind{"NetworkAttachmentDefinition", schema.GroupVersionResource{
		Group:    "k8s.cni.cncf.io",
		Version:  "v1",
		Resource: "network-attachment-definitions",
	}}
)

// reference is an object that a class refers to, and the field with the reference. The namespace of
// a cluster-wide object is empty.
type reference struct {
	kind            kind
	namespace, name string
	field           string
}

func (r *reference) subject() string {
	if r.namespace == "" {
		return r.kind.name + " " + r.name
	}

	return fmt.Sprintf("%s %s/%s", r.kind.name, r.namespace, r.name)
}

// list returns the command that lists the objects of the reference's kind.
func (r *reference) list() string {
	if r.namespace == "" {
		return kubectl("get " + r.kind.kubectl())
	}

	return kubectlIn(r.namespace, "get "+r.kind.kubectl())
}

// checkReference checks whether an object exists.
func (c *classChecker) checkReference(ctx context.Context, check string, r *reference) []Result {
	_, results := c.readReference(ctx, check, r)

	return results
}

// readReference reads an object's metadata and nothing else, also of Secrets. The metadata is nil if
// it cannot be read; the results contain the reason.
func (c *classChecker) readReference(ctx context.Context, check string, r *reference) (*metav1.PartialObjectMetadata, []Result) {
	s := c.about(check, r.subject())

	found, err := providerapi.Once(ctx, requestTimeout, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return c.viewer.clients.Metadata.Resource(r.kind.resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	})

	switch {
	case err == nil:
		return found, s.ok("exists")
	case unknownType(err):
		return nil, s.fail("the provider cluster has no resource "+r.kind.kubectl(), "install the component that provides it, or remove "+r.field)
	case providerapi.Absent(err) && c.missesNamespace(ctx, r.namespace):
		return nil, s.fail("Namespace "+r.namespace+" does not exist", "correct the namespace beside "+r.field+", or create it: kubectl get namespaces")
	case providerapi.Absent(err):
		return nil, s.fail("does not exist", "create it, or change "+r.field+" to an existing one: "+r.list())
	default:
		return nil, s.notChecked(err, r.list()+" "+quoted(r.name))
	}
}

// missesNamespace reports whether the namespace of a reference is known not to exist. checkNamespace
// reports that of the machines.
func (c *classChecker) missesNamespace(ctx context.Context, name string) bool {
	if name == "" || name == c.namespace {
		return false
	}

	_, err := get(ctx, c.viewer.clients.Kubernetes.CoreV1().Namespaces().Get, name)

	return providerapi.Absent(err)
}

// matcher is a class's reference to an instancetype or a preference. KubeVirt infers an empty name
// from a volume.
type matcher struct {
	name, kind string
	// ofNamespace and ofCluster are the plurals of the namespaced and the cluster-wide kind.
	ofNamespace, ofCluster string
}

// namespaced reports whether the matcher refers to the namespaced kind. KubeVirt accepts singular
// and plural, ignoring case, and defaults to the cluster-wide kind (pkg/instancetype/find).
func (m matcher) namespaced() bool {
	return strings.EqualFold(m.kind, m.ofNamespace) || strings.EqualFold(m.kind, strings.TrimSuffix(m.ofNamespace, "s"))
}

// instancetypeMatcher returns the reference to the machine's instancetype. Without one, the class
// contains the size.
func (c *classChecker) instancetypeMatcher() matcher {
	m := ptr.Deref(c.vm.Spec.Instancetype, kubevirtv1.InstancetypeMatcher{})

	return matcher{m.Name, m.Kind, instancetypeapi.PluralResourceName, instancetypeapi.ClusterPluralResourceName}
}

// checkInstancetype checks that the machine's instancetype exists.
func (c *classChecker) checkInstancetype(ctx context.Context) []Result {
	return c.checkMatcher(ctx, checkInstancetype, c.instancetypeMatcher())
}

// checkPreference checks that the machine's preference exists.
func (c *classChecker) checkPreference(ctx context.Context) []Result {
	m := ptr.Deref(c.vm.Spec.Preference, kubevirtv1.PreferenceMatcher{})

	return c.checkMatcher(ctx, checkPreference,
		matcher{m.Name, m.Kind, instancetypeapi.PluralPreferenceResourceName, instancetypeapi.ClusterPluralPreferenceResourceName})
}

// checkMatcher checks that the object which KubeVirt would look up exists. The field with the
// matcher has the name of the check.
func (c *classChecker) checkMatcher(ctx context.Context, check string, m matcher) []Result {
	if m.name == "" {
		return nil
	}

	namespace := ""
	plural := m.ofCluster
	if m.namespaced() {
		namespace = c.namespace
		plural = m.ofNamespace
	}

	resource := instancetypev1beta1.SchemeGroupVersion.WithResource(plural)

	return c.checkReference(ctx, check, &reference{
		kind:      kind{resource.GroupResource().String(), resource},
		namespace: namespace,
		name:      m.name,
		field:     "providerSpec.virtualMachineTemplate.spec." + check + ".name",
	})
}

// getInstancetype returns the spec of the machine's instancetype; nil if there is none or it cannot
// be read, which checkInstancetype reports.
func (c *classChecker) getInstancetype(ctx context.Context) *instancetypev1beta1.VirtualMachineInstancetypeSpec {
	m := c.instancetypeMatcher()
	client := c.viewer.clients.KubeVirt.InstancetypeV1beta1()

	switch {
	case m.name == "":
		return nil
	case m.namespaced():
		if found, err := get(ctx, client.VirtualMachineInstancetypes(c.namespace).Get, m.name); err == nil {
			return &found.Spec
		}
	default:
		if found, err := get(ctx, client.VirtualMachineClusterInstancetypes().Get, m.name); err == nil {
			return &found.Spec
		}
	}

	return nil
}
