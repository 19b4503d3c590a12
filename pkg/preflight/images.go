package preflight

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// checkUnusedImages warns of golden images of the classes' shoots that no checked class and no
// VirtualMachine refers to. They are left behind if a MachineClass is deleted after its last
// machine.
func (c *checker) checkUnusedImages(ctx context.Context) []Result {
	images, err := c.listImages(ctx)
	if err != nil {
		return c.imagesNotChecked(err, "get datavolumes")
	}

	images = slices.DeleteFunc(images, func(image string) bool {
		return slices.ContainsFunc(c.classes, func(class classChecker) bool { return class.image != nil && class.image.Name == image })
	})
	if len(images) == 0 {
		return nil
	}

	used, err := c.listImagesOfMachines(ctx)
	if err != nil {
		return c.imagesNotChecked(err, "get virtualmachines")
	}

	var results []Result

	for _, image := range images {
		if !slices.Contains(used, image) {
			results = append(results, view{identity: c.viewer}.warn(checkUnusedImage, "golden image "+c.namespace+"/"+image,
				"no VirtualMachine and none of the checked MachineClasses refers to it",
				"if no other MachineClass of the shoot refers to it, delete it: "+kubectlIn(c.namespace, "delete datavolume", image)))
		}
	}

	return results
}

func (c *checker) imagesNotChecked(err error, command string) []Result {
	if absent(err) || unknownType(err) {
		return nil // checkKubeVirt and checkCDI report that.
	}

	return []Result{view{identity: c.viewer}.notChecked(checkUnusedImage, "golden images in "+c.namespace, err,
		kubectlIn(c.namespace, command+" --selector "+v1alpha1.LabelGoldenImage))}
}

// listImages returns the names of the golden images of the classes' shoots.
func (c *checker) listImages(ctx context.Context) ([]string, error) {
	return c.collect(ctx, cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes"), "!"+v1alpha1.TagRole,
		func(image metav1.Object) (string, bool) {
			ofImage := image.GetLabels()[v1alpha1.LabelGoldenImage] == image.GetName()

			return image.GetName(), ofImage && slices.ContainsFunc(c.classes, func(class classChecker) bool {
				return class.Machine.Identity().Cluster == image.GetLabels()[v1alpha1.TagCluster]
			})
		})
}

// listImagesOfMachines returns the names of the golden images that VirtualMachines were created
// from.
func (c *checker) listImagesOfMachines(ctx context.Context) ([]string, error) {
	return c.collect(ctx, kubevirtv1.GroupVersion.WithResource("virtualmachines"), "",
		func(vm metav1.Object) (string, bool) { return vm.GetLabels()[v1alpha1.LabelGoldenImage], true })
}

// collect lists the metadata of the objects that have the label of a golden image.
func (c *checker) collect(
	ctx context.Context, resource schema.GroupVersionResource, selector string, keep func(metav1.Object) (string, bool),
) ([]string, error) {
	labels := v1alpha1.LabelGoldenImage
	if selector != "" {
		labels += "," + selector
	}

	clients := c.viewer.clients

	return providerapi.Collect(ctx, clients, clients.Metadata.Resource(resource).Namespace(c.namespace),
		providerapi.List{What: resource.Resource + " in " + c.namespace, Labels: labels}, keep)
}
