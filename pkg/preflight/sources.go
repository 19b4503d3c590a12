package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// checkSources checks that the sources of disks exist, except for
// the golden image, which the driver creates.
func (c *classChecker) checkSources(ctx context.Context) []Result {
	var results []Result

	for _, r := range c.sources() {
		found := c.checkReference(ctx, checkSource, &r)
		if r.kind == kindSource && found[0].Level == OK {
			found = c.checkDataSource(ctx, &r)
		}

		results = append(results, found...)
	}

	return results
}

// sources returns the references of a machine's disks.
func (c *classChecker) sources() []reference {
	var list []reference

	for _, d := range c.disks() {
		if !c.clonesImage(&d) {
			list = append(list, referencesOf(d.path, d.spec, c.namespace)...)
		}
	}

	if c.image != nil {
		list = append(list, referencesOf(rootVolumePath, &c.image.Spec, c.namespace)...)
	}

	return append(list, c.existing()...)
}

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
		name, secret, config := accessTo(source)

		return slices.DeleteFunc([]reference{
			{kindSecret, namespace, secret, path + ".source." + name + ".secretRef"},
			{kindConfig, namespace, config, path + ".source." + name + ".certConfigMap"},
		}, func(r reference) bool { return r.name == "" })
	}
}

// accessTo returns the field of an external source, and the names of the Secret and the ConfigMap
// that an import from it needs.
func accessTo(source *cdiv1beta1.DataVolumeSource) (field, secret, config string) {
	switch {
	case source.HTTP != nil:
		return "http", source.HTTP.SecretRef, source.HTTP.CertConfigMap
	case source.Registry != nil:
		return "registry", ptr.Deref(source.Registry.SecretRef, ""), ptr.Deref(source.Registry.CertConfigMap, "")
	case source.S3 != nil:
		return "s3", source.S3.SecretRef, source.S3.CertConfigMap
	case source.GCS != nil:
		return "gcs", source.GCS.SecretRef, ""
	case source.Imageio != nil:
		return "imageio", source.Imageio.SecretRef, source.Imageio.CertConfigMap
	case source.VDDK != nil:
		return "vddk", source.VDDK.SecretRef, ""
	default:
		return "", "", ""
	}
}

// checkDataSource follows a DataSource to the object that it refers to at present.
func (c *classChecker) checkDataSource(ctx context.Context, r *reference) []Result {
	s := c.about(checkSource, r.subject())
	describe := kubectlIn(r.namespace, "describe "+r.kind.kubectl(), r.name)

	source, err := c.getDataSource(ctx, r.namespace, r.name)
	if err != nil {
		return s.notChecked(err, describe)
	}

	next := resolvedSource(source, r.namespace)
	if len(next) == 0 {
		return s.fail("has no source that can be cloned", describe)
	}

	next[0].field = "spec.source of " + quoted(r.subject())

	return append(s.ok("exists and refers to "+next[0].subject()), c.checkReference(ctx, checkSource, &next[0])...)
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
	return get(ctx, c.viewer.clients.CDI.CdiV1beta1().DataSources(namespace).Get, name)
}

// checkClonePermission reviews, for each disk that is cloned from another namespace, the permission
// that KubeVirt reviews when it creates the disk: whether a service account of the machine's
// namespace may clone it.
func (c *classChecker) checkClonePermission(ctx context.Context) []Result {
	var results []Result

	for _, d := range c.disks() {
		if !d.cloned || c.clonesImage(&d) {
			continue
		}

		for _, r := range referencesOf(d.path, d.spec, c.namespace) {
			results = append(results, c.checkClone(ctx, &d, &r)...)
		}
	}

	return results
}

// cloningAccount returns the service account whose permission counts (authorizeDataVolume in
// pkg/virt-controller/watch/vm): the machine's own, which KubeVirt knows since 1.9, that of a volume,
// or "default".
func (c *classChecker) cloningAccount() string {
	instance := &c.vm.Spec.Template.Spec
	account := "default"

	for i := range instance.Volumes {
		if volume := instance.Volumes[i].ServiceAccount; volume != nil {
			account = volume.ServiceAccountName
		}
	}

	return cmp.Or(instance.ServiceAccountName, account)
}

func (c *classChecker) checkClone(ctx context.Context, of *disk, from *reference) []Result {
	account := c.cloningAccount()

	s := c.about(checkClonePermission, fmt.Sprintf("ServiceAccount %s/%s, cloning %s", c.namespace, account, from.subject()))
	volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}, Spec: *of.spec}
	response, err := volume.AuthorizeSA(c.namespace, "", &authorizer{checker: c.checker, ctx: ctx}, c.namespace, account)

	switch {
	case providerapi.Absent(err):
		return nil // checkSources reports the missing source.
	case err != nil:
		return s.notChecked(err, fmt.Sprintf("kubectl auth can-i create datavolumes.cdi.kubevirt.io --subresource=source --namespace=%s --as=%s%s:%s",
			quoted(from.namespace), serviceAccounts, c.namespace, account))
	case !response.Allowed:
		return s.fail("is not allowed", fmt.Sprintf(
			"kubectl --namespace %[1]s create role clone-images --verb=create --resource=datavolumes.cdi.kubevirt.io/source && "+
				"kubectl --namespace %[1]s create rolebinding clone-images-%[2]s --role=clone-images --serviceaccount=%[2]s:%[3]s",
			quoted(response.Handler.SourceNamespace), c.namespace, account))
	default:
		return s.ok("is allowed")
	}
}

// authorizer sends the reviews for CDI's code.
type authorizer struct {
	*checker

	ctx context.Context //nolint:containedctx // CDI's interface has none.
}

var _ cdiv1beta1.AuthorizationHelperProxy = (*authorizer)(nil)

// CreateSar implements cdiv1beta1.AuthorizationHelperProxy.
func (a *authorizer) CreateSar(question *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return review(a.ctx, a.viewer.clients.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create, question)
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
