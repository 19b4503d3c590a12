package validation

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// dataVolume judges a DataVolume by CDI's rules (pkg/apiserver/webhooks/datavolume-validate.go) and by what CDI accepts but never
// finishes. KubeVirt creates it after it has accepted the machine, so that CDI's refusal would reach nobody.
func dataVolume(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	errs := origin(volume, path)
	errs = append(errs, claim(volume, path)...)
	errs = append(errs, population(&volume.DataVolumeSpec, path)...)
	errs = append(errs, apivalidation.ValidateAnnotations(volume.Annotations, path.Child("annotations"))...)

	return append(errs, volumeAnnotations(volume.Annotations, path.Child("annotations"))...)
}

// bootable judges what only a root volume must be.
func bootable(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	if volume.Source == nil || volume.Source.Blank == nil {
		return nil
	}

	return field.ErrorList{field.Forbidden(path.Child("source", "blank"),
		"a machine cannot boot from an empty disk; use a source that holds an operating system, for example http, registry or pvc")}
}

// origin judges where the data comes from.
func origin(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	switch {
	case volume.Source == nil && volume.SourceRef == nil:
		return field.ErrorList{field.Required(path.Child("source"), "set a source or a sourceRef")}
	case volume.Source != nil && volume.SourceRef != nil:
		return field.ErrorList{field.Forbidden(path.Child("sourceRef"), "set either source or sourceRef")}
	case volume.SourceRef != nil:
		return sourceRef(volume.SourceRef, path.Child("sourceRef"))
	default:
		return source(volume.Source, path.Child("source"))
	}
}

func sourceRef(ref *cdiv1beta1.DataVolumeSourceRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if ref.Kind != cdiv1beta1.DataVolumeDataSource {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, []string{cdiv1beta1.DataVolumeDataSource}))
	}

	return append(errs, cloned(ptr.Deref(ref.Namespace, ""), ref.Name, path)...)
}

// sourceKind is one kind of source, and how it is judged.
type sourceKind struct {
	name  string
	given bool
	judge func(path *field.Path) field.ErrorList
}

func source(s *cdiv1beta1.DataVolumeSource, path *field.Path) field.ErrorList {
	var given []sourceKind

	for _, kind := range sourceKinds(s) {
		if kind.given {
			given = append(given, kind)
		}
	}

	switch len(given) {
	case 0:
		return field.ErrorList{field.Required(path, "set one source, for example pvc, http, registry or, for data, blank")}
	case 1:
		return given[0].judge(path.Child(given[0].name))
	default:
		return field.ErrorList{field.Forbidden(path.Child(given[1].name), given[0].name+" is set already: a volume has one source")}
	}
}

func sourceKinds(s *cdiv1beta1.DataVolumeSource) []sourceKind {
	return []sourceKind{
		{"pvc", s.PVC != nil, func(p *field.Path) field.ErrorList { return cloned(s.PVC.Namespace, s.PVC.Name, p) }},
		{"snapshot", s.Snapshot != nil, func(p *field.Path) field.ErrorList { return cloned(s.Snapshot.Namespace, s.Snapshot.Name, p) }},
		{"http", s.HTTP != nil, func(p *field.Path) field.ErrorList { return httpSource(s.HTTP, p) }},
		{"registry", s.Registry != nil, func(p *field.Path) field.ErrorList { return registrySource(s.Registry, p) }},
		{"s3", s.S3 != nil, func(p *field.Path) field.ErrorList { return s3Source(s.S3, p) }},
		{"gcs", s.GCS != nil, func(p *field.Path) field.ErrorList { return gcsSource(s.GCS, p) }},
		{"imageio", s.Imageio != nil, func(p *field.Path) field.ErrorList { return imageioSource(s.Imageio, p) }},
		{"vddk", s.VDDK != nil, func(p *field.Path) field.ErrorList { return vddkSource(s.VDDK, p) }},
		{"blank", s.Blank != nil, func(*field.Path) field.ErrorList { return nil }},
		{"upload", s.Upload != nil, func(p *field.Path) field.ErrorList {
			return field.ErrorList{field.Forbidden(p, "nobody uploads data for a new machine, which would wait for ever; use http or registry")}
		}},
	}
}

// cloned judges the name of what a disk is cloned from. An empty namespace is the machine's: KubeVirt fills it in.
func cloned(namespace, name string, path *field.Path) field.ErrorList {
	errs := objectName(name, path.Child("name"))

	if namespace != "" {
		for _, msg := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(path.Child("namespace"), namespace, msg))
		}
	}

	return errs
}

func httpSource(s *cdiv1beta1.DataVolumeSourceHTTP, path *field.Path) field.ErrorList {
	errs := sourceURL(s.URL, path.Child("url"), "https", "http")
	errs = append(errs, optionalName(s.SecretRef, path.Child("secretRef"))...)
	errs = append(errs, optionalName(s.CertConfigMap, path.Child("certConfigMap"))...)

	for i, name := range s.SecretExtraHeaders {
		errs = append(errs, objectName(name, path.Child("secretExtraHeaders").Index(i))...)
	}

	return errs
}

func registrySource(s *cdiv1beta1.DataVolumeSourceRegistry, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	method := ptr.Deref(s.PullMethod, cdiv1beta1.RegistryPullPod)
	if methods := []cdiv1beta1.RegistryPullMethod{cdiv1beta1.RegistryPullPod, cdiv1beta1.RegistryPullNode}; !slices.Contains(methods, method) {
		errs = append(errs, field.NotSupported(path.Child("pullMethod"), method, methods))
	}

	switch {
	case s.URL != nil && s.ImageStream != nil:
		errs = append(errs, field.Forbidden(path.Child("imageStream"), "set either url or imageStream"))
	case s.URL != nil:
		errs = append(errs, sourceURL(*s.URL, path.Child("url"), cdiv1beta1.RegistrySchemeDocker, cdiv1beta1.RegistrySchemeOci)...)
	case s.ImageStream == nil:
		errs = append(errs, field.Required(path.Child("url"), "name the image, for example docker://registry.example.com/images/worker:1.0"))
	case *s.ImageStream == "":
		errs = append(errs, field.Required(path.Child("imageStream"), "name the image stream, or use url"))
	case method != cdiv1beta1.RegistryPullNode:
		errs = append(errs, field.Invalid(path.Child("pullMethod"), method, "must be node with imageStream"))
	}

	errs = append(errs, optionalName(ptr.Deref(s.SecretRef, ""), path.Child("secretRef"))...)

	return append(errs, optionalName(ptr.Deref(s.CertConfigMap, ""), path.Child("certConfigMap"))...)
}

func s3Source(s *cdiv1beta1.DataVolumeSourceS3, path *field.Path) field.ErrorList {
	errs := sourceURL(s.URL, path.Child("url"), "https", "http")
	errs = append(errs, optionalName(s.SecretRef, path.Child("secretRef"))...)

	return append(errs, optionalName(s.CertConfigMap, path.Child("certConfigMap"))...)
}

func gcsSource(s *cdiv1beta1.DataVolumeSourceGCS, path *field.Path) field.ErrorList {
	return append(sourceURL(s.URL, path.Child("url"), "gs", "https", "http"), optionalName(s.SecretRef, path.Child("secretRef"))...)
}

func imageioSource(s *cdiv1beta1.DataVolumeSourceImageIO, path *field.Path) field.ErrorList {
	errs := sourceURL(s.URL, path.Child("url"), "https", "http")
	errs = append(errs, objectName(s.SecretRef, path.Child("secretRef"))...)
	errs = append(errs, optionalName(s.CertConfigMap, path.Child("certConfigMap"))...)

	if s.DiskID == "" {
		errs = append(errs, field.Required(path.Child("diskId"), "name the disk to import"))
	}

	if s.CertConfigMap == "" && !ptr.Deref(s.InsecureSkipVerify, false) {
		errs = append(errs, field.Required(path.Child("certConfigMap"), "name the ConfigMap with the server's certificate authority, or set insecureSkipVerify"))
	}

	return errs
}

func vddkSource(s *cdiv1beta1.DataVolumeSourceVDDK, path *field.Path) field.ErrorList {
	errs := sourceURL(s.URL, path.Child("url"), "https", "http")
	errs = append(errs, objectName(s.SecretRef, path.Child("secretRef"))...)
	errs = append(errs, optionalName(s.CertConfigMap, path.Child("certConfigMap"))...)
	errs = append(errs, optionalName(s.ExtraArgs, path.Child("extraArgs"))...)

	for _, required := range []struct{ name, value, remedy string }{
		{"uuid", s.UUID, "name the virtual machine that the disk belongs to, by its UUID"},
		{"backingFile", s.BackingFile, "name the disk to import"},
		{"thumbprint", s.Thumbprint, "give the thumbprint of the server's certificate"},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(path.Child(required.name), required.remedy))
		}
	}

	return errs
}

// checksums are CDI's kinds of checksums (pkg/util/checksum).
var checksums = regexp.MustCompile(`^(?i:md5:[0-9a-f]{32}|sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

func checksum(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	if volume.Source == nil || volume.Source.HTTP == nil {
		return nil
	}

	if sum := volume.Source.HTTP.Checksum; sum != "" && !checksums.MatchString(sum) {
		return field.ErrorList{field.Invalid(path.Child("source", "http", "checksum"), sum,
			"must be md5, sha1, sha256 or sha512, a colon, and that checksum in hexadecimal digits")}
	}

	return nil
}

// claim judges the PersistentVolumeClaim that CDI makes: of storage, with defaults from the storage profile, or of pvc, literally.
func claim(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	switch {
	case volume.PVC == nil && volume.Storage == nil:
		return field.ErrorList{field.Required(path.Child("storage"), "set storage (or pvc) with at least a size")}
	case volume.PVC != nil && volume.Storage != nil:
		return field.ErrorList{field.Forbidden(path.Child("pvc"), "set either storage or pvc")}
	case volume.PVC != nil:
		errs := claimSpec(volume.PVC, path.Child("pvc"))
		errs = append(errs, literalAccessModes(volume.PVC.AccessModes, path.Child("pvc", "accessModes"))...)

		return append(errs, size(volume.PVC.Resources, true, path.Child("pvc"))...)
	}

	s := volume.Storage
	errs := claimSpec(&corev1.PersistentVolumeClaimSpec{
		AccessModes: s.AccessModes, Selector: s.Selector, StorageClassName: s.StorageClassName, VolumeMode: s.VolumeMode,
		VolumeName: s.VolumeName, DataSource: s.DataSource, DataSourceRef: s.DataSourceRef,
	}, path.Child("storage"))

	return append(errs, size(s.Resources, !cloning(volume), path.Child("storage"))...)
}

// cloning says whether a volume's size can be that of its source.
func cloning(volume *v1alpha1.DataVolume) bool {
	s := ptr.Deref(volume.Source, cdiv1beta1.DataVolumeSource{})

	return s == (cdiv1beta1.DataVolumeSource{}) || s.PVC != nil || s.Snapshot != nil
}

func literalAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	switch len(modes) {
	case 0:
		return field.ErrorList{field.Required(path, "name one access mode, for example ReadWriteOnce, or use storage instead of pvc")}
	case 1:
		return nil
	default:
		return field.ErrorList{field.TooMany(path, len(modes), 1)}
	}
}

func claimSpec(c *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	errs := accessModes(c.AccessModes, path.Child("accessModes"))
	errs = append(errs, optionalName(ptr.Deref(c.StorageClassName, ""), path.Child("storageClassName"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(c.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)

	if modes := []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}; c.VolumeMode != nil &&
		!slices.Contains(modes, *c.VolumeMode) {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *c.VolumeMode, modes))
	}

	if c.VolumeName != "" {
		errs = append(errs, field.Forbidden(path.Child("volumeName"), "all machines of the class would claim one PersistentVolume; remove it"))
	}

	return append(errs, owned(path, []ownership{
		{"dataSource", c.DataSource != nil, "use source or sourceRef of the volume"},
		{"dataSourceRef", c.DataSourceRef != nil, "use source or sourceRef of the volume"},
	})...)
}

func accessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	supported := []corev1.PersistentVolumeAccessMode{
		corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOncePod,
	}

	for i, mode := range modes {
		if !slices.Contains(supported, mode) {
			errs = append(errs, field.NotSupported(path.Index(i), mode, supported))
		}
	}

	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(path, "ReadWriteOncePod goes with no other access mode"))
	}

	return errs
}

func size(resources corev1.VolumeResourceRequirements, required bool, path *field.Path) field.ErrorList {
	path = path.Child("resources", "requests").Key(string(corev1.ResourceStorage))
	given, found := resources.Requests[corev1.ResourceStorage]
	minimum := resource.NewQuantity(1<<20, resource.BinarySI)

	switch {
	case !found && required:
		return field.ErrorList{field.Required(path, "set the volume's size, for example 20Gi")}
	case found && given.Cmp(*minimum) < 0:
		return field.ErrorList{field.Invalid(path, given.String(), "must be at least "+minimum.String())}
	}

	return nil
}

// population judges how CDI's pods fill the volume.
func population(spec *cdiv1beta1.DataVolumeSpec, path *field.Path) field.ErrorList {
	errs := optionalName(spec.PriorityClassName, path.Child("priorityClassName"))
	errs = append(errs, optionalName(spec.ServiceAccountName, path.Child("serviceAccountName"))...)

	if spec.ContentType != "" && spec.ContentType != cdiv1beta1.DataVolumeKubeVirt {
		errs = append(errs, field.Invalid(path.Child("contentType"), spec.ContentType, "must be kubevirt: only that becomes a disk"))
	}

	if len(spec.Checkpoints) > 0 || spec.FinalCheckpoint {
		errs = append(errs, field.Forbidden(path.Child("checkpoints"),
			"they are the steps of one virtual machine's migration, whose next step each machine would wait for; remove checkpoints and finalCheckpoint"))
	}

	return errs
}

// volumeAnnotations refuses annotations that CDI copies to the claim and takes for its own, or for the scheduler's.
func volumeAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for _, a := range []struct{ key, effect string }{
		{"cdi.kubevirt.io/storage.bind.immediate.requested", "the disk could be made in another zone than the machine"},
		{"volume.kubernetes.io/selected-node", "the disk could be made in another zone than the machine"},
		{"cdi.kubevirt.io/storage.prePopulated", "CDI would wait for a disk that somebody else makes"},
		{"cdi.kubevirt.io/storage.checkStaticVolume", "CDI would look for a disk that somebody else made"},
		{"cdi.kubevirt.io/storage.populatedFor", "CDI would take the disk for filled already"},
		{"cdi.kubevirt.io/storage.pod.phase", "CDI would take the disk for filled already"},
		{"cdi.kubevirt.io/externalPopulation", "CDI would leave it to somebody else to fill the disk"},
		{"cdi.kubevirt.io/storage.populator.kind", "CDI would take the disk for one of its temporary ones"},
		{"cdi.kubevirt.io/storage.upload.target", "CDI would wait for an upload"},
		{"k8s.io/CloneRequest", "CDI would clone another disk"},
		{"k8s.io/CloneOf", "CDI would take the disk for cloned already"},
		{"pv.kubernetes.io/bind-completed", "Kubernetes would take the disk for lost"},
	} {
		if _, given := annotations[a.key]; given {
			errs = append(errs, field.Forbidden(path.Key(a.key), a.effect+"; remove it"))
		}
	}

	return errs
}

// objectName judges the name of an object that the machine needs. With a wrong one, it would be waited for for ever.
func objectName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name an object of the provider cluster")}
	}

	return optionalName(name, path)
}

func optionalName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if name != "" {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(path, name, msg))
		}
	}

	return errs
}
