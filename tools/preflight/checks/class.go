// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Class is a MachineClass whose machines are to run on the provider cluster.
type Class struct {
	Name string
	// Machine is a sample machine of the class. No machine of that name may exist, and the provider
	// cluster must accept its user data.
	Machine *spi.CreateMachineInput
	// Wanted is the number of additional machines that the class needs.
	Wanted int
}

// scope is the input of checks that cover all classes.
type scope struct {
	classes    []*class
	evacuation bool
	now        time.Time
}

// clusters returns the tags with the clusters of the classes.
func (s *scope) clusters() []string {
	var clusters []string

	for _, c := range s.classes {
		if cluster := c.Machine.Identity().Cluster; !slices.Contains(clusters, cluster) {
			clusters = append(clusters, cluster)
		}
	}

	return clusters
}

// class is a MachineClass, and the objects that the driver would create for a machine of it.
type class struct {
	Class

	namespace string
	secrets   []*corev1.Secret
	// image is nil for a machine without a golden image.
	image *cdiv1beta1.DataVolume
	vm    *kubevirtv1.VirtualMachine
}

// rendered renders the objects of the classes' machines. A class for which this fails is a result.
func rendered(all []Class, namespace string) (classes []*class, unusable []Result) {
	for _, of := range all {
		c := &class{Class: of, namespace: namespace, secrets: render.Secrets(of.Machine, namespace)}

		var err error
		if c.vm, err = render.VirtualMachine(of.Machine, namespace); err == nil && of.Machine.Spec.UsesGoldenImage() {
			c.image, err = of.Machine.Image().DataVolume(namespace)
		}

		if err != nil {
			unusable = append(unusable, Unusable(of.Name, err.Error()))
		} else {
			classes = append(classes, c)
		}
	}

	return classes, unusable
}

// Unusable is the result for a class that no machine can be created from, on any provider cluster.
func Unusable(class, message string) Result {
	result := subject{check: "class", name: "MachineClass " + class}.fail(message, "run mcm-kubevirt validate to list the fields to change")[0]
	result.Class = statustext.Printable(class)

	return result
}

// field returns the field of the class that a field of its VirtualMachine comes from.
func (c *class) field(path string) string {
	return render.InTermsOfProviderSpec(path, c.Machine, c.vm)
}

// instance returns the spec of the VirtualMachineInstance.
func (c *class) instance() *kubevirtv1.VirtualMachineInstanceSpec {
	return &c.vm.Spec.Template.Spec
}

// rootVolumePath is the path of the DataVolume that is cloned from a golden image, if there is one.
const rootVolumePath = "providerSpec.rootVolume"

// disk is a DataVolume of a machine.
type disk struct {
	// path is the path of the spec in the class.
	path string
	spec *cdiv1beta1.DataVolumeSpec
	// requested is the storage that the spec requests.
	requested cdiv1beta1.StorageSpec
	// image is the golden image that the disk is cloned from; nil if it is not.
	image *cdiv1beta1.DataVolume
}

// disks returns the disks of one machine.
func (c *class) disks() []disk {
	templates := c.vm.Spec.DataVolumeTemplates
	list := make([]disk, len(templates))

	for i := range templates {
		path := c.field(fmt.Sprintf("spec.dataVolumeTemplates[%d].spec", i))
		list[i] = disk{path: path, spec: &templates[i].Spec, requested: requestedStorage(&templates[i].Spec)}

		if path == rootVolumePath {
			list[i].image = c.image
		}
	}

	return list
}

// requestedStorage returns the storage that a DataVolume requests as a pvc or a storage.
func requestedStorage(spec *cdiv1beta1.DataVolumeSpec) cdiv1beta1.StorageSpec {
	if pvc := spec.PVC; pvc != nil {
		return cdiv1beta1.StorageSpec{
			StorageClassName: pvc.StorageClassName,
			AccessModes:      pvc.AccessModes,
			VolumeMode:       pvc.VolumeMode,
			Resources:        pvc.Resources,
		}
	}

	return ptr.Deref(spec.Storage, cdiv1beta1.StorageSpec{})
}

// inField returns the path of a field of the disk's storage in the class.
func (d *disk) inField(name string) string {
	if d.spec.PVC != nil {
		return d.path + ".pvc." + name
	}

	return d.path + ".storage." + name
}

// isCloned reports whether the disk is filled from another volume of the provider cluster.
func (d *disk) isCloned() bool {
	source := ptr.Deref(d.spec.Source, cdiv1beta1.DataVolumeSource{})

	return d.spec.SourceRef != nil || source.PVC != nil || source.Snapshot != nil
}
