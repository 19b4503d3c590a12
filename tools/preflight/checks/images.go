package checks

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
)

// checkUnusedImages warns of golden images of the classes' shoots that no checked class and no
// VirtualMachine refers to. They are left behind if a MachineClass is deleted after its last
// machine.
func (c *checker) checkUnusedImages(ctx context.Context) []Result {
	clients := *c.viewer.clients
	clients.Namespace = c.namespace // The admin's kubeconfig may name another one.

	var referenced []string

	for _, class := range c.classes {
		if class.image != nil {
			referenced = append(referenced, class.image.Name)
		}
	}

	unused, err := images.List(ctx, &clients, c.clusters(), func(image metav1.Object) (string, bool) {
		return image.GetName(), !slices.Contains(referenced, image.GetName())
	})

	if err == nil && len(unused) > 0 {
		var used []string

		used, err = images.OfMachines(ctx, &clients, func(string, metav1.Object) bool { return true })
		unused = slices.DeleteFunc(unused, func(image string) bool { return slices.Contains(used, image) })
	}

	switch {
	case apierrors.IsNotFound(err):
		return nil // checkKubeVirt and checkCDI report that.
	case err != nil:
		return c.viewer.about(checkUnusedImage, "golden images in "+c.namespace).
			notChecked(err, kubectlIn(c.namespace, "get datavolumes,virtualmachines --selector="+v1alpha1.LabelGoldenImage))
	}

	var results []Result
	for _, image := range unused {
		results = append(results, c.viewer.about(checkUnusedImage, "golden image "+c.namespace+"/"+image).warn(
			"no VirtualMachine and none of the checked MachineClasses refers to it",
			"if no other MachineClass of the shoot refers to it, delete it: "+kubectlIn(c.namespace, "delete datavolume", image))...)
	}

	return results
}
