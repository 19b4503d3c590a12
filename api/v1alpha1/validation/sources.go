// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// validateOrigin validates the source of a volume's data.
func validateOrigin(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	switch {
	case volume.Source == nil && volume.SourceRef == nil:
		return field.ErrorList{field.Required(path.Child("source"), "set a source or a sourceRef")}
	case volume.Source != nil && volume.SourceRef != nil:
		return field.ErrorList{field.Forbidden(path.Child("sourceRef"), "set either source or sourceRef")}
	case volume.SourceRef != nil:
		ref, path := volume.SourceRef, path.Child("sourceRef")

		return append(validateOneOf(path.Child("kind"), ref.Kind, cdiv1beta1.DataVolumeDataSource), validateClone(ptr.Deref(ref.Namespace, ""), ref.Name, path)...)
	default:
		return validateSource(volume.Source, path.Child("source"))
	}
}

// sourceKind is one kind of source, and its validation.
type sourceKind struct {
	name     string
	set      bool
	validate func(path *field.Path) field.ErrorList
}

func validateSource(s *cdiv1beta1.DataVolumeSource, path *field.Path) field.ErrorList {
	sources := slices.DeleteFunc(sourceKinds(s), func(kind sourceKind) bool { return !kind.set })

	switch len(sources) {
	case 0:
		return field.ErrorList{field.Required(path, "set one source, for example pvc, http, registry or, for data disks, blank")}
	case 1:
		return sources[0].validate(path.Child(sources[0].name))
	default:
		return field.ErrorList{field.Forbidden(path.Child(sources[1].name), sources[0].name+" is already set; a volume has one source")}
	}
}

func sourceKinds(s *cdiv1beta1.DataVolumeSource) []sourceKind {
	return []sourceKind{
		{"pvc", s.PVC != nil, func(p *field.Path) field.ErrorList { return validateClone(s.PVC.Namespace, s.PVC.Name, p) }},
		{"snapshot", s.Snapshot != nil, func(p *field.Path) field.ErrorList { return validateClone(s.Snapshot.Namespace, s.Snapshot.Name, p) }},
		{"http", s.HTTP != nil, func(p *field.Path) field.ErrorList { return validateHTTPSource(s.HTTP, p) }},
		{"registry", s.Registry != nil, func(p *field.Path) field.ErrorList { return validateRegistrySource(s.Registry, p) }},
		{"s3", s.S3 != nil, func(p *field.Path) field.ErrorList { return validateS3Source(s.S3, p) }},
		{"gcs", s.GCS != nil, func(p *field.Path) field.ErrorList { return validateGCSSource(s.GCS, p) }},
		{"imageio", s.Imageio != nil, func(p *field.Path) field.ErrorList { return validateImageIOSource(s.Imageio, p) }},
		{"vddk", s.VDDK != nil, func(p *field.Path) field.ErrorList { return validateVDDKSource(s.VDDK, p) }},
		{"blank", s.Blank != nil, func(*field.Path) field.ErrorList { return nil }},
		{"upload", s.Upload != nil, func(p *field.Path) field.ErrorList {
			return field.ErrorList{field.Forbidden(p, "a new machine would wait forever for the upload; use http or registry")}
		}},
	}
}

// validateClone validates the name of the source of a clone. An empty namespace is that of the machine:
// KubeVirt fills it in.
func validateClone(namespace, name string, path *field.Path) field.ErrorList {
	errs := validateObjectName(name, path.Child("name"))
	if namespace != "" {
		errs = append(errs, validateSyntax(path.Child("namespace"), namespace, validation.IsDNS1123Label)...)
	}

	return errs
}

func validateHTTPSource(s *cdiv1beta1.DataVolumeSourceHTTP, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		validateSourceURL(s.URL, path.Child("url"), "https", "http"),
		validateOptionalName(s.SecretRef, path.Child("secretRef")),
		validateOptionalName(s.CertConfigMap, path.Child("certConfigMap")),
	)

	for i, name := range s.SecretExtraHeaders {
		errs = append(errs, validateObjectName(name, path.Child("secretExtraHeaders").Index(i))...)
	}

	return errs
}

func validateRegistrySource(s *cdiv1beta1.DataVolumeSourceRegistry, path *field.Path) field.ErrorList {
	method := ptr.Deref(s.PullMethod, cdiv1beta1.RegistryPullPod)
	errs := slices.Concat(
		validateOneOf(path.Child("pullMethod"), method, cdiv1beta1.RegistryPullPod, cdiv1beta1.RegistryPullNode),
		validateOptionalName(ptr.Deref(s.SecretRef, ""), path.Child("secretRef")),
		validateOptionalName(ptr.Deref(s.CertConfigMap, ""), path.Child("certConfigMap")),
	)

	switch stream := path.Child("imageStream"); {
	case s.URL != nil && s.ImageStream != nil:
		return append(errs, field.Forbidden(stream, "set either url or imageStream"))
	case s.URL != nil:
		return append(errs, validateSourceURL(*s.URL, path.Child("url"), cdiv1beta1.RegistrySchemeDocker, cdiv1beta1.RegistrySchemeOci)...)
	case s.ImageStream == nil:
		return append(errs, field.Required(path.Child("url"), "name the image, for example docker://registry.example.com/images/worker:1.0"))
	case *s.ImageStream == "":
		return append(errs, field.Required(stream, "name the image stream, or use url"))
	default:
		return append(errs, refuse(path.Child("pullMethod"), method != cdiv1beta1.RegistryPullNode, method, "must be node with imageStream")...)
	}
}

func validateS3Source(s *cdiv1beta1.DataVolumeSourceS3, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateSourceURL(s.URL, path.Child("url"), "https", "http"),
		validateOptionalName(s.SecretRef, path.Child("secretRef")),
		validateOptionalName(s.CertConfigMap, path.Child("certConfigMap")),
	)
}

func validateGCSSource(s *cdiv1beta1.DataVolumeSourceGCS, path *field.Path) field.ErrorList {
	return append(validateSourceURL(s.URL, path.Child("url"), "gs", "https", "http"), validateOptionalName(s.SecretRef, path.Child("secretRef"))...)
}

func validateImageIOSource(s *cdiv1beta1.DataVolumeSourceImageIO, path *field.Path) field.ErrorList {
	authority := s.CertConfigMap != "" || ptr.Deref(s.InsecureSkipVerify, false)

	return slices.Concat(
		validateSourceURL(s.URL, path.Child("url"), "https", "http"),
		validateObjectName(s.SecretRef, path.Child("secretRef")),
		validateOptionalName(s.CertConfigMap, path.Child("certConfigMap")),
		require(path.Child("certConfigMap"), authority, "name the ConfigMap with the server's certificate authority, or set insecureSkipVerify"),
		require(path.Child("diskId"), s.DiskID, "name the disk to import"),
	)
}

func validateVDDKSource(s *cdiv1beta1.DataVolumeSourceVDDK, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateSourceURL(s.URL, path.Child("url"), "https", "http"),
		validateObjectName(s.SecretRef, path.Child("secretRef")),
		validateOptionalName(s.CertConfigMap, path.Child("certConfigMap")),
		validateOptionalName(s.ExtraArgs, path.Child("extraArgs")),
		require(path.Child("uuid"), s.UUID, "set the UUID of the virtual machine that the disk belongs to"),
		require(path.Child("backingFile"), s.BackingFile, "name the disk to import"),
		require(path.Child("thumbprint"), s.Thumbprint, "set the thumbprint of the server's certificate"),
	)
}

// twoSchemes matches a URL whose host, to the parser, is the scheme of another URL.
var twoSchemes = regexp.MustCompile(`^([a-z0-9-]+)://[A-Za-z][A-Za-z0-9+.-]*://`)

// validateSourceURL never quotes the URL, which may contain a password.
func validateSourceURL(text string, path *field.Path, schemes ...string) field.ErrorList {
	supported := strings.Join(schemes, ":// or ") + "://"
	parsed, err := url.ParseRequestURI(text)

	switch scheme := twoSchemes.FindStringSubmatch(text); {
	case text == "":
		return field.ErrorList{field.Required(path, "name the image, with "+supported)}
	case scheme != nil && slices.Contains(schemes, scheme[1]):
		return field.ErrorList{field.Invalid(path, field.OmitValueType{},
			"must have one scheme; remove the second, so that the host follows "+scheme[1]+"://")}
	case err != nil || !slices.Contains(schemes, parsed.Scheme) || parsed.Host+parsed.Opaque+parsed.Path == "":
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a URL with "+supported)}
	default:
		return refuse(path, parsed.Host == "" && parsed.Scheme != cdiv1beta1.RegistrySchemeOci, field.OmitValueType{},
			"must name a host after "+parsed.Scheme+"://")
	}
}
