package preflight

import (
	"cmp"
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
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
	kindSource   = kind{"DataSource", cdiv1beta1.SchemeGroupVersion.WithResource("datasources")}
	kindSnapshot = kind{"VolumeSnapshot", schema.GroupVersionResource{
		Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots",
	}}
	kindNetwork = kind{"NetworkAttachmentDefinition", schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions",
	}}
)

// reference is an object that a class refers to, and the field with the reference.
type reference struct {
	kind            kind
	namespace, name string
	field           string
}

func (r *reference) subject() string {
	return fmt.Sprintf("%s %s/%s", r.kind.name, r.namespace, r.name)
}

// checkReference checks whether an object exists. It reads only the metadata, also of Secrets.
func (c *classChecker) checkReference(ctx context.Context, check string, r *reference) Result {
	v := c.view()

	_, err := ask(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return c.viewer.clients.Metadata.Resource(r.kind.resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	})

	list := kubectlIn(r.namespace, "get "+r.kind.kubectl())

	switch {
	case err == nil:
		return v.ok(check, r.subject(), "exists")
	case unknownType(err):
		return v.fail(check, r.subject(), "the provider cluster has no resource "+r.kind.kubectl(), "install the component that provides it, or remove "+r.field)
	case absent(err):
		return v.fail(check, r.subject(), "does not exist", "create it, or change "+r.field+" to an existing one: "+list)
	default:
		return v.notChecked(check, r.subject(), err, list+" "+quoted(r.name))
	}
}

// checkSources checks that the sources of disks exist, except for
// the golden image, which the driver creates.
func (c *classChecker) checkSources(ctx context.Context) []Result {
	var results []Result

	for _, r := range c.sources() {
		result := c.checkReference(ctx, checkSource, &r)
		if result.Level == OK && r.kind == kindSource {
			results = append(results, c.checkDataSource(ctx, &r)...)

			continue
		}

		results = append(results, result)
	}

	return results
}

// sources returns the references of a machine's disks.
func (c *classChecker) sources() []reference {
	var list []reference

	for _, claim := range c.claims() {
		if c.image == nil || claim.path != rootVolumePath {
			list = append(list, referencesOf(claim.path, claim.spec, c.namespace)...)
		}
	}

	if c.image != nil {
		list = append(list, referencesOf(rootVolumePath, &c.image.Spec, c.namespace)...)
	}

	return append(list, c.existing()...)
}

const rootVolumePath = "providerSpec.rootVolume"

// existing returns the references of the volumes that must exist before the machine.
func (c *classChecker) existing() []reference {
	var list []reference

	for i := range c.Machine.Spec.AdditionalVolumes {
		of := c.Machine.Spec.AdditionalVolumes[i].VolumeSource
		if of == nil {
			continue
		}

		path := fmt.Sprintf("providerSpec.additionalVolumes[%d].volumeSource", i)

		switch {
		case of.PersistentVolumeClaim != nil:
			list = append(list, reference{kindClaim, c.namespace, of.PersistentVolumeClaim.ClaimName, path + ".persistentVolumeClaim.claimName"})
		case of.ConfigMap != nil && !ptr.Deref(of.ConfigMap.Optional, false):
			list = append(list, reference{kindConfig, c.namespace, of.ConfigMap.Name, path + ".configMap.name"})
		case of.Secret != nil && !ptr.Deref(of.Secret.Optional, false):
			list = append(list, reference{kindSecret, c.namespace, of.Secret.SecretName, path + ".secret.secretName"})
		}
	}

	return list
}

// referencesOf returns the object in the provider cluster that a DataVolume is filled from, or the
// Secret and ConfigMap for access to an external source.
func referencesOf(path string, spec *cdiv1beta1.DataVolumeSpec, namespace string) []reference {
	if ref := spec.SourceRef; ref != nil {
		return []reference{{kindSource, ptr.Deref(ref.Namespace, namespace), ref.Name, path + ".sourceRef.name"}}
	}

	source := spec.Source

	switch {
	case source == nil:
		return nil
	case source.PVC != nil:
		return []reference{{kindClaim, cmp.Or(source.PVC.Namespace, namespace), source.PVC.Name, path + ".source.pvc.name"}}
	case source.Snapshot != nil:
		return []reference{{kindSnapshot, cmp.Or(source.Snapshot.Namespace, namespace), source.Snapshot.Name, path + ".source.snapshot.name"}}
	default:
		return keysOf(path+".source.", source, namespace)
	}
}

// keysOf returns the Secrets and ConfigMaps that an import needs.
func keysOf(path string, source *cdiv1beta1.DataVolumeSource, namespace string) []reference {
	type keys struct{ name, secret, config string }

	var found keys

	switch {
	case source.HTTP != nil:
		found = keys{"http", source.HTTP.SecretRef, source.HTTP.CertConfigMap}
	case source.Registry != nil:
		found = keys{"registry", ptr.Deref(source.Registry.SecretRef, ""), ptr.Deref(source.Registry.CertConfigMap, "")}
	case source.S3 != nil:
		found = keys{"s3", source.S3.SecretRef, source.S3.CertConfigMap}
	case source.GCS != nil:
		found = keys{"gcs", source.GCS.SecretRef, ""}
	case source.Imageio != nil:
		found = keys{"imageio", source.Imageio.SecretRef, source.Imageio.CertConfigMap}
	case source.VDDK != nil:
		found = keys{"vddk", source.VDDK.SecretRef, ""}
	}

	var list []reference
	if found.secret != "" {
		list = append(list, reference{kindSecret, namespace, found.secret, path + found.name + ".secretRef"})
	}

	if found.config != "" {
		list = append(list, reference{kindConfig, namespace, found.config, path + found.name + ".certConfigMap"})
	}

	return list
}

// checkDataSource follows a DataSource to the object that it refers to at present.
func (c *classChecker) checkDataSource(ctx context.Context, r *reference) []Result {
	v := c.view()
	describe := kubectlIn(r.namespace, "describe "+r.kind.kubectl(), r.name)

	source, err := c.getDataSource(ctx, r.namespace, r.name)
	if err != nil {
		return []Result{v.notChecked(checkSource, r.subject(), err, describe)}
	}

	next := resolvedSource(source, r.namespace)
	if len(next) == 0 {
		return []Result{v.fail(checkSource, r.subject(), "has no source that can be cloned", describe)}
	}

	next[0].field = "spec.source of " + quoted(r.subject())

	return []Result{v.ok(checkSource, r.subject(), "exists and refers to "+next[0].subject()), c.checkReference(ctx, checkSource, &next[0])}
}

// resolvedSource returns the object that volumes are cloned from for a DataSource; empty if there
// is none. A DataSource that refers to another one has the resolved source in its status.
func resolvedSource(source *cdiv1beta1.DataSource, namespace string) []reference {
	of := source.Spec.Source
	if of.DataSource != nil {
		of = source.Status.Source
	}

	return referencesOf("", &cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{PVC: of.PVC, Snapshot: of.Snapshot}}, namespace)
}

func (c *checker) getDataSource(ctx context.Context, namespace, name string) (*cdiv1beta1.DataSource, error) {
	return ask(ctx, func(ctx context.Context) (*cdiv1beta1.DataSource, error) {
		return c.viewer.clients.CDI.CdiV1beta1().DataSources(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// checkClonePermission reviews, for each disk that is cloned from another namespace, the permission
// that KubeVirt reviews when it creates the disk: whether the service account "default" of the
// machine's namespace may clone it (pkg/virt-controller/watch/vm).
func (c *classChecker) checkClonePermission(ctx context.Context) []Result {
	var results []Result

	for _, claim := range c.claims() {
		if !claim.cloned || c.image != nil && claim.path == rootVolumePath {
			continue
		}

		for _, r := range referencesOf(claim.path, claim.spec, c.namespace) {
			results = append(results, c.checkClone(ctx, &claim, &r)...)
		}
	}

	return results
}

func (c *classChecker) checkClone(ctx context.Context, of *claim, from *reference) []Result {
	const account = "default"

	v, subject := c.view(), fmt.Sprintf("ServiceAccount %s/%s, cloning %s", c.namespace, account, from.subject())
	review := fmt.Sprintf("kubectl auth can-i create %s --subresource=source --namespace=%s --as=system:serviceaccount:%s:%s",
		"datavolumes.cdi.kubevirt.io", quoted(from.namespace), c.namespace, account)

	volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}, Spec: *of.spec}
	response, err := volume.AuthorizeSA(c.namespace, "", &authorizer{checker: c.checker, ctx: ctx}, c.namespace, account)

	switch {
	case absent(err):
		return nil // checkSources reports the missing source.
	case err != nil:
		return []Result{v.notChecked(checkClonePermission, subject, err, review)}
	case !response.Allowed:
		return []Result{v.fail(checkClonePermission, subject, "is not allowed", fmt.Sprintf(
			"kubectl --namespace %[1]s create role clone-images --verb=create --resource=datavolumes.cdi.kubevirt.io/source && "+
				"kubectl --namespace %[1]s create rolebinding clone-images-%[2]s --role=clone-images --serviceaccount=%[2]s:%[3]s",
			quoted(response.Handler.SourceNamespace), c.namespace, account))}
	default:
		return []Result{v.ok(checkClonePermission, subject, "is allowed")}
	}
}

// authorizer sends the reviews for CDI's code.
type authorizer struct {
	*checker

	ctx context.Context //nolint:containedctx // CDI's interface has none.
}

var _ cdiv1beta1.AuthorizationHelperProxy = (*authorizer)(nil)

// CreateSar implements cdiv1beta1.AuthorizationHelperProxy.
func (a *authorizer) CreateSar(review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return ask(a.ctx, func(ctx context.Context) (*authorizationv1.SubjectAccessReview, error) {
		return a.viewer.clients.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	})
}

// GetNamespace implements cdiv1beta1.AuthorizationHelperProxy.
// checkSources shows whether the namespace exists.
func (a *authorizer) GetNamespace(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// GetDataSource implements cdiv1beta1.AuthorizationHelperProxy.
func (a *authorizer) GetDataSource(namespace, name string) (*cdiv1beta1.DataSource, error) {
	return a.getDataSource(a.ctx, namespace, name)
}
