package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// annotationBindImmediately makes CDI fill a volume before a pod uses it, even if the storage
	// class waits for the first consumer. No pod ever uses an image itself. On a machine's disk,
	// the annotation would fix the zone before the scheduler does.
	annotationBindImmediately = "cdi.kubevirt.io/storage.bind.immediate.requested"

	imagePrefix = "golden-"
	imageDigits = 20
)

// imageKey holds all properties that distinguish images. Its JSON with sorted fields is hashed, so
// no field may change its name or encoding: all existing images would be imported again.
type imageKey struct {
	Cluster      string                    `json:"cluster"`
	Architecture string                    `json:"architecture,omitempty"`
	Annotations  map[string]string         `json:"annotations,omitempty"`
	Spec         cdiv1beta1.DataVolumeSpec `json:"spec"`
}

// GoldenImage returns the DataVolume that machines' root volumes are cloned from, for a valid spec
// that uses a golden image. Its name is a hash of all its inputs, so that every machine with the
// same inputs finds it. It has neither the role tag nor a machine's label, so that it is never
// treated as part of a machine. The zone and the MachineClass are not among the inputs.
func GoldenImage(image spi.Image, namespace string) (*cdiv1beta1.DataVolume, error) {
	key, err := keyOf(image)
	if err != nil {
		return nil, fmt.Errorf("read rootVolume: %w", err)
	}

	name := GoldenImageName(key)

	annotations := map[string]string{}
	maps.Copy(annotations, image.Spec.RootVolume.Annotations)
	annotations[annotationBindImmediately], annotations[v1alpha1.AnnotationGoldenImageKey] = "true", key

	return &cdiv1beta1.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1beta1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Annotations: annotations,
			Labels: map[string]string{
				v1alpha1.TagCluster:       image.Spec.Tags[v1alpha1.TagCluster],
				v1alpha1.LabelGoldenImage: name,
				LabelManagedBy:            ManagedBy,
			},
		},
		Spec: *imageSpec(image.Spec),
	}, nil
}

// GoldenImageName returns the name of the image with the given key, which is the value of its
// annotation v1alpha1.AnnotationGoldenImageKey.
func GoldenImageName(key string) string {
	return imagePrefix + digest(key)[:imageDigits]
}

func keyOf(image spi.Image) (string, error) {
	key, err := asObject(imageKey{
		Cluster:      image.Spec.Tags[v1alpha1.TagCluster],
		Architecture: image.Architecture,
		Annotations:  image.Spec.RootVolume.Annotations,
		Spec:         *imageSpec(image.Spec),
	})
	if err != nil {
		return "", err
	}

	sorted, err := json.Marshal(key)

	return string(sorted), err
}

// imageSpec returns the root volume with the image's size. Sizes are
// normalized: 10Gi and 10240Mi are the same image.
func imageSpec(spec *v1alpha1.ProviderSpec) *cdiv1beta1.DataVolumeSpec {
	image := spec.RootVolume.DataVolumeSpec.DeepCopy()

	size := spec.RootVolume.Size()
	if spec.GoldenImage != nil && spec.GoldenImage.Size != nil {
		size = spec.GoldenImage.Size
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

// cloneImage makes the machine's root volume a clone of a golden image, with its own size.
func cloneImage(vm *kubevirtv1.VirtualMachine, image string) {
	root := &vm.Spec.DataVolumeTemplates[0]
	root.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: vm.Namespace, Name: image}}

	root.Labels[v1alpha1.LabelGoldenImage] = image
	vm.Labels[v1alpha1.LabelGoldenImage] = image
}

// ImageInTermsOfProviderSpec returns CDI's message about a golden image with its fields replaced by
// those of the ProviderSpec.
func ImageInTermsOfProviderSpec(message string) string {
	return fieldPath.ReplaceAllStringFunc(message, func(match string) string {
		at := strings.Index(match, "spec.")
		if at < 0 {
			return match
		}

		return match[:at] + "providerSpec.rootVolume." + match[at+len("spec."):]
	})
}
