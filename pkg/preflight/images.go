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
// VirtualMachine refers to. They stay behind if a MachineClass is deleted after its last machine.
func (s *site) checkUnusedImages(ctx context.Context) []Result {
	images, err := s.listImages(ctx)
	if err != nil {
		return s.unseenImages(err, "get datavolumes")
	}

	images = slices.DeleteFunc(images, func(image string) bool {
		return slices.ContainsFunc(s.classes, func(c classSite) bool { return c.image != nil && c.image.Name == image })
	})
	if len(images) == 0 {
		return nil
	}

	used, err := s.listImagesOfMachines(ctx)
	if err != nil {
		return s.unseenImages(err, "get virtualmachines")
	}

	var results []Result

	for _, image := range images {
		if !slices.Contains(used, image) {
			results = append(results, view{identity: s.looker}.warn(checkUnusedImage, "golden image "+s.namespace+"/"+image,
				"no VirtualMachine and none of these MachineClasses refers to it",
				"unless another MachineClass of the shoot does, delete it: "+kubectlIn(s.namespace, "delete datavolume", image)))
		}
	}

	return results
}

func (s *site) unseenImages(err error, command string) []Result {
	if absent(err) || unknownType(err) {
		return nil // checkKubeVirt and checkCDI report that.
	}

	return []Result{view{identity: s.looker}.unseen(checkUnusedImage, "golden images in "+s.namespace, err,
		kubectlIn(s.namespace, command+" --selector "+v1alpha1.LabelGoldenImage))}
}

// listImages returns the names of the golden images of the classes' shoots.
func (s *site) listImages(ctx context.Context) ([]string, error) {
	return s.collect(ctx, cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes"), "!"+v1alpha1.TagRole,
		func(image metav1.Object) (string, bool) {
			ofImage := image.GetLabels()[v1alpha1.LabelGoldenImage] == image.GetName()

			return image.GetName(), ofImage && slices.ContainsFunc(s.classes, func(c classSite) bool {
				return c.Machine.Identity().Cluster == image.GetLabels()[v1alpha1.TagCluster]
			})
		})
}

// listImagesOfMachines returns the names of the golden images that VirtualMachines were created from.
func (s *site) listImagesOfMachines(ctx context.Context) ([]string, error) {
	return s.collect(ctx, kubevirtv1.GroupVersion.WithResource("virtualmachines"), "",
		func(vm metav1.Object) (string, bool) { return vm.GetLabels()[v1alpha1.LabelGoldenImage], true })
}

// collect lists the metadata of the objects that have the label of a golden image.
func (s *site) collect(
	ctx context.Context, resource schema.GroupVersionResource, selector string, keep func(metav1.Object) (string, bool),
) ([]string, error) {
	labels := v1alpha1.LabelGoldenImage
	if selector != "" {
		labels += "," + selector
	}

	clients := s.looker.clients

	return providerapi.Collect(ctx, clients, clients.Metadata.Resource(resource).Namespace(s.namespace),
		providerapi.List{What: resource.Resource + " in " + s.namespace, Labels: labels}, keep)
}
