// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package goldenimage names, renders and recognizes golden images: the DataVolumes that the root
// volumes of a shoot's machines are cloned from. The driver creates them with CreateMachine; the
// Gardener extension creates them before the first machine. The package is pure: it must not depend on a
// client, nor when an image is created or deleted.
package goldenimage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

const (
	// annotationBindImmediately makes CDI populate a volume before a pod consumes it, although its
	// storage class has WaitForFirstConsumer. No pod consumes an image. On a machine's disk the
	// annotation would choose the zone before the scheduler does.
	annotationBindImmediately = "cdi.kubevirt.io/storage.bind.immediate.requested"

	namePrefix = "golden-"
	nameDigits = 20
)

// Source is the part of a MachineClass that determines its golden image.
type Source struct {
	// Spec is a ProviderSpec. An image is created from a valid one only.
	Spec *v1alpha1.ProviderSpec
	// Architecture is the CPU architecture of the guest (amd64, arm64, s390x); empty if the
	// MachineClass does not set it.
	Architecture string
}

// key is everything that distinguishes one image from another. Its JSON with sorted fields is
// hashed, so that no field may change its name or form: every existing image would be imported
// again.
type key struct {
	Cluster      string                    `json:"cluster"`
	Architecture string                    `json:"architecture,omitempty"`
	Annotations  map[string]string         `json:"annotations,omitempty"`
	Spec         cdiv1beta1.DataVolumeSpec `json:"spec"`
}

// DataVolume returns the image. It must be called only if Spec.UsesGoldenImage. The name is a hash
// of the content, so that machines with the same content find the same image; zone and MachineClass
// are not part of it. The image carries neither the role tag nor the label of a machine, so that it
// is never taken for a machine's disk.
func (s Source) DataVolume(namespace string) (*cdiv1beta1.DataVolume, error) {
	content, err := s.key()
	if err != nil {
		return nil, fmt.Errorf("read rootVolume: %w", err)
	}

	name := NameOf(content)

	annotations := map[string]string{}
	maps.Copy(annotations, s.Spec.RootVolume.Annotations)
	annotations[annotationBindImmediately] = "true"
	annotations[v1alpha1.AnnotationGoldenImageKey] = content

	return &cdiv1beta1.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1beta1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Namespace:   namespace,
			Annotations: annotations,
			Labels:      s.labels(name),
		},
		Spec: *s.dataVolumeSpec(),
	}, nil
}

// labels returns the labels of the image. That of the Shoot's UID is not part of the key, so that images
// from before the tag are found.
func (s Source) labels(name string) map[string]string {
	labels := map[string]string{
		v1alpha1.TagCluster:       s.Spec.Tags[v1alpha1.TagCluster],
		v1alpha1.LabelGoldenImage: name,
		v1alpha1.LabelManagedBy:   v1alpha1.ManagedBy,
	}

	if uid, tagged := s.Spec.Tags[v1alpha1.TagShootUID]; tagged {
		labels[v1alpha1.TagShootUID] = uid
	}

	return labels
}

// Name returns the name of the image. It must be called only if Spec.UsesGoldenImage.
func (s Source) Name() (string, error) {
	content, err := s.key()

	return NameOf(content), err
}

// NameOf returns the name of the image with this key, which is the value of the annotation
// v1alpha1.AnnotationGoldenImageKey.
func NameOf(key string) string {
	sum := sha256.Sum256([]byte(key))

	return namePrefix + hex.EncodeToString(sum[:])[:nameDigits]
}

// Is reports whether the object with this metadata is a golden image of a cluster: it has the tag
// of the cluster but not the role tag, a label with its own name, and a key that hashes to this
// name. A clone has the label but another name, and a copy with another name has another hash.
func Is(object metav1.Object, cluster string) bool {
	labels := object.GetLabels()
	key := object.GetAnnotations()[v1alpha1.AnnotationGoldenImageKey]
	_, role := labels[v1alpha1.TagRole]

	return !role && labels[v1alpha1.TagCluster] == cluster && labels[v1alpha1.LabelGoldenImage] == object.GetName() &&
		key != "" && NameOf(key) == object.GetName()
}

func (s Source) key() (string, error) {
	raw, err := json.Marshal(key{
		Cluster:      s.Spec.Tags[v1alpha1.TagCluster],
		Architecture: s.Architecture,
		Annotations:  s.Spec.RootVolume.Annotations,
		Spec:         *s.dataVolumeSpec(),
	})
	if err != nil {
		return "", err
	}

	// The fields of a map are sorted when it is written.
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return "", err
	}

	sorted, err := json.Marshal(object)

	return string(sorted), err
}

// dataVolumeSpec returns the root volume with the size of the image. A size has one form only:
// 10Gi and 10240Mi are the same image.
func (s Source) dataVolumeSpec() *cdiv1beta1.DataVolumeSpec {
	image := s.Spec.RootVolume.DataVolumeSpec.DeepCopy()

	size := s.Spec.RootVolume.Size()
	if s.Spec.GoldenImage != nil && s.Spec.GoldenImage.Size != nil {
		size = s.Spec.GoldenImage.Size
	}

	if size == nil {
		return image
	}

	requests := corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size.Value(), resource.BinarySI)}

	switch {
	case image.Storage != nil:
		image.Storage.Resources.Requests = requests
	case image.PVC != nil:
		image.PVC.Resources.Requests = requests
	}

	return image
}
