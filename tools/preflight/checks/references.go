// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// kind is a kind of object that a class refers to.
type kind struct {
	name     string
	resource schema.GroupVersionResource
}

// kubectl returns the name of the kind in kubectl.
func (k kind) kubectl() string { return k.resource.GroupResource().String() }

var (
	kindNamespace           = kind{"Namespace", corev1.SchemeGroupVersion.WithResource("namespaces")}
	kindClaim               = kind{"PersistentVolumeClaim", corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")}
	kindSecret              = kind{"Secret", corev1.SchemeGroupVersion.WithResource("secrets")}
	kindConfig              = kind{"ConfigMap", corev1.SchemeGroupVersion.WithResource("configmaps")}
	kindPriority            = kind{"PriorityClass", schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")}
	kindVolume              = kind{"DataVolume", cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes")}
	kindSource              = kind{"DataSource", cdiv1beta1.SchemeGroupVersion.WithResource("datasources")}
	kindSnapshot            = kind{"VolumeSnapshot", schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}}
	kindClaimTemplate       = kind{"ResourceClaimTemplate", resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")}
	kindDeviceClass         = kind{"DeviceClass", resourcev1.SchemeGroupVersion.WithResource("deviceclasses")}
	kindInstancetype        = kindOf(instancetypeapi.PluralResourceName)
	kindClusterInstancetype = kindOf(instancetypeapi.ClusterPluralResourceName)
	kindNetwork             = kind{
		"NetworkAttachmentDefinition",
		schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"},
	}
)

// kindOf returns the kind of an instancetype or a preference with its plural. Results show it as kubectl does.
func kindOf(plural string) kind {
	k := kind{resource: instancetypev1beta1.SchemeGroupVersion.WithResource(plural)}
	k.name = k.kubectl()

	return k
}

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

// references returns the objects that the machine's objects name, each once, except for those that the
// driver creates.
func (c *class) references() []reference {
	var list []reference

	for _, d := range c.disks() {
		if d.image == nil {
			list = append(list, sourcesOf(d.path, d.spec, c.namespace)...)
		}

		list = append(list, priorityOf(d.path, d.spec))
	}

	if c.image != nil {
		list = append(list, sourcesOf(rootVolumePath, &c.image.Spec, c.namespace)...)
		list = append(list, priorityOf(rootVolumePath, &c.image.Spec))
	}

	list = append(list, c.referencesOfInstance()...)
	known := map[reference]bool{}

	return slices.DeleteFunc(list, func(r reference) bool {
		r.field = ""
		repeated := known[r]
		known[r] = true

		return repeated || r.name == ""
	})
}

// priorityOf returns the PriorityClass of CDI's pods for a DataVolume. Its name may be empty.
func priorityOf(path string, spec *cdiv1beta1.DataVolumeSpec) reference {
	return reference{kindPriority, "", spec.PriorityClassName, path + ".priorityClassName"}
}

// referencesOfInstance returns the objects that the machine's VirtualMachineInstance names, except for
// the Secrets that the driver creates. Names may be empty.
func (c *class) referencesOfInstance() []reference {
	instance := c.instance()
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

// sourcesOf returns the object in the provider cluster that a DataVolume is filled from, or the
// Secrets and the ConfigMap for access to an external source. Names may be empty.
func sourcesOf(path string, spec *cdiv1beta1.DataVolumeSpec, namespace string) []reference {
	source := ptr.Deref(spec.Source, cdiv1beta1.DataVolumeSource{})

	switch ref := spec.SourceRef; {
	case ref != nil:
		return []reference{{kindSource, ptr.Deref(ref.Namespace, namespace), ref.Name, path + ".sourceRef.name"}}
	case source.PVC != nil:
		return []reference{{kindClaim, cmp.Or(source.PVC.Namespace, namespace), source.PVC.Name, path + ".source.pvc.name"}}
	case source.Snapshot != nil:
		return []reference{{kindSnapshot, cmp.Or(source.Snapshot.Namespace, namespace), source.Snapshot.Name, path + ".source.snapshot.name"}}
	}

	// All external sources have the same fields for access to them, as far as they have them.
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&source)
	if err != nil {
		return nil
	}

	var list []reference

	for _, field := range slices.Sorted(maps.Keys(fields)) {
		of := func(name string) string {
			text, _, _ := unstructured.NestedString(fields, field, name)

			return text
		}
		if of("pullMethod") == string(cdiv1beta1.RegistryPullNode) {
			continue // CDI ignores the others.
		}

		at := path + ".source." + field + "."
		list = append(list, reference{kindSecret, namespace, of("secretRef"), at + "secretRef"}, reference{kindConfig, namespace, of("certConfigMap"), at + "certConfigMap"})

		headers, _, _ := unstructured.NestedStringSlice(fields, field, "secretExtraHeaders")
		for i, header := range headers {
			list = append(list, reference{kindSecret, namespace, header, fmt.Sprintf("%ssecretExtraHeaders[%d]", at, i)})
		}
	}

	return list
}

// resolvedSource returns the object that volumes are cloned from for a DataSource; empty if there
// is none. A DataSource that refers to another one has the resolved source in its status.
func resolvedSource(source *cdiv1beta1.DataSource, namespace string) []reference {
	of := source.Spec.Source
	if of.DataSource != nil {
		of = source.Status.Source
	}

	return sourcesOf("", &cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{PVC: of.PVC, Snapshot: of.Snapshot}}, namespace)
}

// instancetype returns the reference to the machine's instancetype. Its name is empty if the class contains the
// size, or if KubeVirt infers the name from a volume.
func (c *class) instancetype() *reference {
	m := ptr.Deref(c.vm.Spec.Instancetype, kubevirtv1.InstancetypeMatcher{})

	return c.matched("instancetype", m.Name, m.Kind, instancetypeapi.PluralResourceName, instancetypeapi.ClusterPluralResourceName)
}

// preference returns the reference to the machine's preference; its name may be empty.
func (c *class) preference() *reference {
	m := ptr.Deref(c.vm.Spec.Preference, kubevirtv1.PreferenceMatcher{})

	return c.matched("preference", m.Name, m.Kind, instancetypeapi.PluralPreferenceResourceName, instancetypeapi.ClusterPluralPreferenceResourceName)
}

// matched returns the object that a matcher refers to. KubeVirt accepts singular and plural of the namespaced
// kind, ignoring case, and defaults to the cluster-wide kind (pkg/instancetype/find).
func (c *class) matched(field, name, of, ofNamespace, ofCluster string) *reference {
	field = "providerSpec.virtualMachineTemplate.spec." + field + ".name"

	if strings.EqualFold(of, ofNamespace) || strings.EqualFold(of, strings.TrimSuffix(ofNamespace, "s")) {
		return &reference{kindOf(ofNamespace), c.namespace, name, field}
	}

	return &reference{kindOf(ofCluster), "", name, field}
}
