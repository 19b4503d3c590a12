// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// foreignContent are prefixes of annotations that cause the content of a DataVolume not to come from
// its source. CDI copies them to the claim (pkg/controller/datavolume/controller-base.go): it
// adopts an existing claim or volume, accepts an upload, clones, treats an import that never ran as
// complete, or imports with other credentials and certificates. CDI sets the first annotation
// itself when it has adopted a claim; backup tools set it on restored DataVolumes.
var foreignContent = []string{
	prePopulated,
	"cdi.kubevirt.io/allowClaimAdoption",
	"cdi.kubevirt.io/storage.checkStaticVolume",
	"cdi.kubevirt.io/storage.upload.",
	"cdi.kubevirt.io/storage.clone.",
	"cdi.kubevirt.io/storage.import.",
	"cdi.kubevirt.io/storage.pod.",
	"k8s.io/CloneRequest",
	"k8s.io/CloneOf",
}

const prePopulated = "cdi.kubevirt.io/storage.prePopulated"

// requireOwn returns an error that wraps spi.ErrForeign and names every difference, unless a
// DataVolume is the wanted image. The name, the labels and the key annotation are predictable, so
// anybody with permission to create DataVolumes could plant an image with other content. The spec of
// a DataVolume is immutable, so one comparison holds until the DataVolume is deleted. If the DataVolume
// is replaced between two reads, the next read reports that.
func requireOwn(c *providerapi.Clients, have, want *cdiv1beta1.DataVolume) error {
	differences := slices.Concat(differentMetadata(have, want), differentSpec(&have.Spec, &want.Spec))
	if len(differences) == 0 {
		return nil
	}

	origin := "find its creator"
	if len(differences) == 1 && differences[0] == annotated(prePopulated) {
		origin = "if a backup tool restored it, its content may differ from the source; check its origin"
	}

	return spi.WithRemedy(
		spi.Errorf(spi.ErrForeign, "DataVolume %s has the name of a golden image, but not its %s", c.Path(want.Name), shortList(differences)),
		origin+", then delete it: the driver then imports the image")
}

func annotated(annotation string) string { return "annotation " + annotation }

// shortList shortens a list of differences, to leave room for the remedy: the creator of the DataVolume
// controls the number of differences and the length of their names.
func shortList(differences []string) string {
	const most, longest = 5, 100

	var list []string

	for _, difference := range differences[:min(len(differences), most)] {
		if len(difference) > longest {
			difference = strings.ToValidUTF8(difference[:longest], "") + "…"
		}

		list = append(list, difference)
	}

	if more := len(differences) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}

	return strings.Join(list, ", ")
}

func differentMetadata(have, want *cdiv1beta1.DataVolume) []string {
	var list []string

	for _, label := range []string{v1alpha1.TagCluster, v1alpha1.LabelGoldenImage} {
		if have.Labels[label] != want.Labels[label] {
			list = append(list, "label "+label)
		}
	}

	if v1alpha1.IsOfOtherShoot(have.Labels, want.Labels[v1alpha1.TagShootUID]) {
		list = append(list, "label "+v1alpha1.TagShootUID)
	}

	if key := v1alpha1.AnnotationGoldenImageKey; have.Annotations[key] != want.Annotations[key] {
		list = append(list, annotated(key))
	}

	for _, annotation := range slices.Sorted(maps.Keys(have.Annotations)) {
		wanted, ours := want.Annotations[annotation]
		if hasForeignContent(annotation) && (!ours || wanted != have.Annotations[annotation]) {
			list = append(list, annotated(annotation))
		}
	}

	return list
}

func hasForeignContent(annotation string) bool {
	return slices.ContainsFunc(foreignContent, func(prefix string) bool { return strings.HasPrefix(annotation, prefix) })
}

// differentSpec returns the paths of the fields that differ. CDI stores a spec unchanged. Fields
// that the driver does not set are ignored, since other admission webhooks may set them.
func differentSpec(have, want *cdiv1beta1.DataVolumeSpec) []string {
	have = withoutDefaults(have, want)
	if equality.Semantic.DeepEqual(have, want) {
		return nil
	}

	theirs, err := runtime.DefaultUnstructuredConverter.ToUnstructured(have)
	ours, also := runtime.DefaultUnstructuredConverter.ToUnstructured(want)

	if err != nil || also != nil {
		return []string{"spec"}
	}

	return differentFields("spec", theirs, ours)
}

// withoutDefaults returns a copy of a spec without the fields that the wanted spec does not set.
func withoutDefaults(have, want *cdiv1beta1.DataVolumeSpec) *cdiv1beta1.DataVolumeSpec {
	have = have.DeepCopy()

	if want.PriorityClassName == "" {
		have.PriorityClassName = ""
	}

	if want.Preallocation == nil {
		have.Preallocation = nil
	}

	if want.ContentType == "" && have.ContentType == cdiv1beta1.DataVolumeKubeVirt {
		have.ContentType = ""
	}

	if have.PVC != nil && want.PVC != nil {
		unset(&have.PVC.AccessModes, &have.PVC.VolumeMode, &have.PVC.StorageClassName,
			want.PVC.AccessModes, want.PVC.VolumeMode, want.PVC.StorageClassName)
	}

	if have.Storage != nil && want.Storage != nil {
		unset(&have.Storage.AccessModes, &have.Storage.VolumeMode, &have.Storage.StorageClassName,
			want.Storage.AccessModes, want.Storage.VolumeMode, want.Storage.StorageClassName)
	}

	return have
}

// unset clears the fields of a claim that the wanted claim does not set.
func unset(
	modes *[]corev1.PersistentVolumeAccessMode, mode **corev1.PersistentVolumeMode, class **string,
	wantModes []corev1.PersistentVolumeAccessMode, wantMode *corev1.PersistentVolumeMode, wantClass *string,
) {
	if len(wantModes) == 0 {
		*modes = nil
	}

	if wantMode == nil {
		*mode = nil
	}

	if wantClass == nil {
		*class = nil
	}
}

func differentFields(path string, have, want any) []string {
	theirs, ok := have.(map[string]any)
	ours, also := want.(map[string]any)

	if !ok || !also {
		if equality.Semantic.DeepEqual(have, want) {
			return nil
		}

		return []string{path}
	}

	names := slices.AppendSeq(slices.Collect(maps.Keys(theirs)), maps.Keys(ours))
	slices.Sort(names)

	var list []string
	for _, name := range slices.Compact(names) {
		list = append(list, differentFields(path+"."+name, theirs[name], ours[name])...)
	}

	return list
}
