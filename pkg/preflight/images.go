package preflight

import (
	"context"
	"slices"

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

	var clusters, referenced []string

	for i := range c.classes {
		clusters = append(clusters, c.classes[i].Machine.Identity().Cluster)
		if image := c.classes[i].image; image != nil {
			referenced = append(referenced, image.Name)
		}
	}

	unreferenced, err := images.List(ctx, &clients, clusters, func(image metav1.Object) (string, bool) {
		return image.GetName(), !slices.Contains(referenced, image.GetName())
	})
	if err != nil {
		return c.imagesNotChecked(err, "get datavolumes")
	}

	if len(unreferenced) == 0 {
		return nil
	}

	used, err := images.OfMachines(ctx, &clients, func(string, metav1.Object) bool { return true })
	if err != nil {
		return c.imagesNotChecked(err, "get virtualmachines")
	}

	var results []Result

	for _, image := range unreferenced {
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
