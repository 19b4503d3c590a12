package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// incompatibility is a pair of versions of KubeVirt and Kubernetes that is known not to work.
// docs/compatibility.md has a row for each.
type incompatibility struct {
	// before is the first version of KubeVirt that is not known to be affected, and since the first
	// version of Kubernetes that is.
	before, since string
	// containers is set if only machines are affected that boot from a container image.
	containers bool
	effect     string
	// fixed is the version of KubeVirt to upgrade to, and works the last version of Kubernetes that
	// works.
	fixed, works string
	issue        string
}

var incompatibilities = []incompatibility{
	{
		// Conditions of pods have an observedGeneration since Kubernetes 1.34. virt-controller 1.6.0 does not
		// know the field: the API server refuses its patch of a launcher pod's conditions, which tests the old
		// ones. The patch of 1.7 tests nothing (pkg/virt-controller/watch/vmi/lifecycle.go).
		before: "1.7",
		since:  "1.34",
		effect: "may start no machine: virt-controller 1.6.0 cannot patch the conditions of pods",
		fixed:  "1.7",
		works:  "1.33",
		issue:  "https://github.com/kubevirt/kubevirt/issues/15586",
	},
	{
		// The checksum of a container disk is larger than the int32 of KubeVirt's CRD (api/core/v1/types.go).
		before:     "1.8.3",
		since:      "1.36",
		containers: true,
		effect:     "leaves machines with a container disk in the phase Scheduled: the API server refuses virt-handler's status",
		fixed:      "1.8.4",
		works:      "1.35",
		issue:      "https://github.com/kubevirt/kubevirt/issues/17858",
	},
}

// checkKubernetes warns of pairs of versions that are known not to work.
func (c *checker) checkKubernetes(ctx context.Context, kubeVirt *kubevirtv1.KubeVirt) []Result {
	suspected := slices.DeleteFunc(slices.Clone(incompatibilities), func(i incompatibility) bool {
		return !olderThan(kubeVirt, i.before) || i.containers && !c.bootsContainers()
	})
	if len(suspected) == 0 {
		return nil
	}

	s := c.viewer.about(checkKubeVirt, "Kubernetes")

	installed, err := c.viewer.getVersion(ctx)
	if err != nil {
		return s.notChecked(err, "kubectl version")
	}

	var results []Result

	for _, i := range suspected {
		if installed.AtLeast(version.MustParseGeneric(i.since)) {
			results = append(results, s.warn(
				fmt.Sprintf("KubeVirt %s on Kubernetes %s %s (%s)", kubeVirt.Status.ObservedKubeVirtVersion, installed, i.effect, i.issue),
				"upgrade KubeVirt to "+i.fixed+" or newer, or keep Kubernetes at "+i.works)...)
		}
	}

	return results
}

// bootsContainers reports whether the machines of a class have a disk or a kernel from a container
// image.
func (c *checker) bootsContainers() bool {
	return slices.ContainsFunc(c.classes, func(class *classChecker) bool {
		instance := &class.vm.Spec.Template.Spec
		boot := instance.Domain.Firmware

		return boot != nil && boot.KernelBoot != nil && boot.KernelBoot.Container != nil ||
			slices.ContainsFunc(instance.Volumes, func(v kubevirtv1.Volume) bool { return v.ContainerDisk != nil })
	})
}

// getVersion returns the version of the API server. By default, every authenticated user may read it
// (ClusterRole system:public-info-viewer).
func (i *identity) getVersion(ctx context.Context) (*version.Version, error) {
	raw, err := providerapi.Once(ctx, requestTimeout, func(ctx context.Context) ([]byte, error) {
		return i.clients.Kubernetes.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	})
	if err != nil {
		return nil, err
	}

	var info apiversion.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return nil, err
	}

	// The API server's version may have a suffix, such as +k3s1.
	return version.ParseGeneric(info.GitVersion)
}
