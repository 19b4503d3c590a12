package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// checkSources checks that the objects exist that the machine's objects name, except for the golden
// image, which the driver creates.
func (c *classChecker) checkSources(ctx context.Context) []Result {
	var results []Result

	for _, r := range c.references() {
		found := c.checkReference(ctx, checkSource, &r)
		if r.kind == kindSource && found[0].Level == OK {
			found = c.checkDataSource(ctx, &r)
		}

		results = append(results, found...)
	}

	return results
}

// references returns the objects that the machine's objects name, each once.
func (c *classChecker) references() []reference {
	var list []reference

	for _, d := range c.disks() {
		if !c.clonesImage(&d) {
			list = append(list, referencesOf(d.path, d.spec, c.namespace)...)
		}

		list = append(list, priorityOf(d.path, d.spec)...)
	}

	if c.image != nil {
		list = append(list, referencesOf(rootVolumePath, &c.image.Spec, c.namespace)...)
		list = append(list, priorityOf(rootVolumePath, &c.image.Spec)...)
	}

	list = append(list, c.referencesOfInstance()...)
	known := map[reference]bool{}

	return slices.DeleteFunc(list, func(r reference) bool {
		field := r.field
		r.field = ""
		repeated := known[r]
		known[r] = true

		return repeated || r.name == "" || field == ""
	})
}

// priorityOf returns the PriorityClass of CDI's pods for a DataVolume.
func priorityOf(path string, spec *cdiv1beta1.DataVolumeSpec) []reference {
	return []reference{{kindPriority, "", spec.PriorityClassName, path + ".priorityClassName"}}
}

// referencesOfInstance returns the objects that the machine's VirtualMachineInstance names, except for
// the Secrets that the driver creates. Names may be empty.
func (c *classChecker) referencesOfInstance() []reference {
	instance := &c.vm.Spec.Template.Spec
	list := []reference{{kindPriority, "", instance.PriorityClassName, c.field("spec.template.spec.priorityClassName")}}

	if boot := instance.Domain.Firmware; boot != nil && boot.KernelBoot != nil && boot.KernelBoot.Container != nil {
		const path = "spec.template.spec.domain.firmware.kernelBoot.container.imagePullSecret"

		list = append(list, reference{kindSecret, c.namespace, boot.KernelBoot.Container.ImagePullSecret, c.field(path)})
	}

	for i := range instance.Volumes {
		for _, r := range referencesOfVolume(&instance.Volumes[i]) {
			r.namespace = c.namespace
			r.field = c.field(fmt.Sprintf("spec.template.spec.volumes[%d].%s", i, r.field))
			list = append(list, r)
		}
	}

	return slices.DeleteFunc(list, func(r reference) bool {
		return r.kind == kindSecret && slices.ContainsFunc(c.secrets, func(own *corev1.Secret) bool { return own.Name == r.name })
	})
}

// referencesOfVolume returns the objects that a volume names, with their fields below the volume. The
// driver creates DataVolumes and the Secrets of cloud-init.
func referencesOfVolume(v *kubevirtv1.Volume) []reference {
	switch {
	case v.PersistentVolumeClaim != nil:
		return []reference{{kind: kindClaim, name: v.PersistentVolumeClaim.ClaimName, field: "persistentVolumeClaim.claimName"}}
	case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
		return []reference{{kind: kindClaim, name: v.Ephemeral.PersistentVolumeClaim.ClaimName, field: "ephemeral.persistentVolumeClaim.claimName"}}
	case v.ContainerDisk != nil:
		return []reference{{kind: kindSecret, name: v.ContainerDisk.ImagePullSecret, field: "containerDisk.imagePullSecret"}}
	case v.ConfigMap != nil && !ptr.Deref(v.ConfigMap.Optional, false):
		return []reference{{kind: kindConfig, name: v.ConfigMap.Name, field: "configMap.name"}}
	case v.Secret != nil && !ptr.Deref(v.Secret.Optional, false):
		return []reference{{kind: kindSecret, name: v.Secret.SecretName, field: "secret.secretName"}}
	case v.Sysprep != nil:
		return []reference{
			{kind: kindSecret, name: ptr.Deref(v.Sysprep.Secret, corev1.LocalObjectReference{}).Name, field: "sysprep.secret.name"},
			{kind: kindConfig, name: ptr.Deref(v.Sysprep.ConfigMap, corev1.LocalObjectReference{}).Name, field: "sysprep.configMap.name"},
		}
	default:
		return nil
	}
}

// referencesOf returns the object in the provider cluster that a DataVolume is filled from, or the
// Secrets and the ConfigMap for access to an external source.
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
	}

	name, secret, config := accessTo(source)
	list := []reference{
		{kindSecret, namespace, secret, path + ".source." + name + ".secretRef"},
		{kindConfig, namespace, config, path + ".source." + name + ".certConfigMap"},
	}

	if source.HTTP != nil {
		for i, header := range source.HTTP.SecretExtraHeaders {
			list = append(list, reference{kindSecret, namespace, header, fmt.Sprintf("%s.source.http.secretExtraHeaders[%d]", path, i)})
		}
	}

	return list
}

// accessTo returns the field of an external source, and the names of the Secret and the ConfigMap
// that an import from it needs. With the pull method node, CDI ignores both.
func accessTo(source *cdiv1beta1.DataVolumeSource) (field, secret, config string) {
	switch {
	case source.HTTP != nil:
		return "http", source.HTTP.SecretRef, source.HTTP.CertConfigMap
	case source.Registry != nil && ptr.Deref(source.Registry.PullMethod, "") == cdiv1beta1.RegistryPullNode:
		return "registry", "", ""
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

// checkSourceClasses compares the StorageClass of each disk that is cloned from a claim with the class of
// the claim.
func (c *classChecker) checkSourceClasses(ctx context.Context) []Result {
	var results []Result

	for _, d := range c.disks() {
		if d.cloned && d.class != "" && !c.clonesImage(&d) {
			results = append(results, c.checkSourceClass(ctx, &d)...)
		}
	}

	return results
}

func (c *classChecker) checkSourceClass(ctx context.Context, d *disk) []Result {
	from := c.sourceClaim(ctx, d)
	if from == nil {
		return nil
	}

	claim, err := get(ctx, c.viewer.clients.Kubernetes.CoreV1().PersistentVolumeClaims(from.namespace).Get, from.name)
	if err != nil || ptr.Deref(claim.Spec.StorageClassName, d.class) == d.class {
		return nil // checkSources reports an error.
	}

	class := *claim.Spec.StorageClassName

	return c.about(checkCloneStrategy, from.subject()).warn(
		fmt.Sprintf("has StorageClass %s, but %s is cloned into %s: CDI creates a temporary claim in namespace %s or copies the volume through pods; "+
			"if that claim does not bind, machines never start, and no error is reported", class, strings.TrimPrefix(d.path, "providerSpec."), d.class, from.namespace),
		fmt.Sprintf("set %s to %s, or provide the image in %s; check the claims of a running clone with %s",
			d.inField("storageClassName"), quoted(class), quoted(d.class), kubectlIn(from.namespace, "get persistentvolumeclaims")))
}

// sourceClaim returns the claim that a disk is cloned from, following a DataSource; nil if it is cloned from
// another object or the DataSource cannot be read, which checkSources reports.
func (c *classChecker) sourceClaim(ctx context.Context, d *disk) *reference {
	list := referencesOf(d.path, d.spec, c.namespace)

	if len(list) > 0 && list[0].kind == kindSource {
		source, err := c.getDataSource(ctx, list[0].namespace, list[0].name)
		if err != nil {
			return nil
		}

		list = resolvedSource(source, list[0].namespace)
	}

	if len(list) == 0 || list[0].kind != kindClaim {
		return nil
	}

	return &list[0]
}

// resolvedSource returns the object that volumes are cloned from for a DataSource; empty if there
// is none. A DataSource that refers to another one has the resolved source in its status.
func resolvedSource(source *cdiv1beta1.DataSource, namespace string) []reference {
	of := source.Spec.Source
	if of.DataSource != nil {
		of = source.Status.Source
	}

	if of.PVC == nil && of.Snapshot == nil {
		return nil
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
