// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// checkUnusedImages warns of golden images of the classes' shoots that no checked class and no
// VirtualMachine refers to. They are left behind if a MachineClass is deleted after its last
// machine.
func checkUnusedImages(ctx context.Context, r *reader, in *scope) []Result {
	unused, err := r.goldenImages(ctx, in.clusters())
	unused = slices.DeleteFunc(unused, func(image string) bool {
		return slices.ContainsFunc(in.classes, func(c *class) bool { return c.image != nil && c.image.Name == image })
	})

	if err == nil && len(unused) > 0 {
		var used []string

		used, err = r.imagesOfMachines(ctx)
		unused = slices.DeleteFunc(unused, func(image string) bool { return slices.Contains(used, image) })
	}

	switch {
	case apierrors.IsNotFound(err):
		return nil // The checks of KubeVirt and CDI report that.
	case err != nil:
		return r.about("golden images in "+r.namespace()).
			notChecked(err, kubectlIn(r.namespace(), "get datavolumes,virtualmachines --selector="+v1alpha1.LabelGoldenImage))
	}

	var results []Result
	for _, image := range unused {
		results = append(results, r.about("golden image "+r.namespace()+"/"+image).warn(
			"no VirtualMachine and none of the checked MachineClasses refers to it",
			"if no other MachineClass of the shoot refers to it, delete it: "+kubectlIn(r.namespace(), "delete datavolume", image))...)
	}

	return results
}
