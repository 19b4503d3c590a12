package preflight

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// observedGenerations is the version of Kubernetes since which conditions of pods have an
	// observedGeneration by default. virt-controller 1.6.0 does not know the field: the API server
	// refuses its patch of a launcher pod's conditions, which tests the old ones.
	observedGenerations = "1.34"
	// strategicPatches is the version of KubeVirt whose patch tests nothing
	// (pkg/virt-controller/watch/vmi/lifecycle.go).
	strategicPatches = "1.7"
	patchIssue       = "https://github.com/kubevirt/kubevirt/issues/15586"
)

// checkKubernetes warns if this version of KubeVirt may start no machine on the provider cluster's
// version of Kubernetes.
func (c *checker) checkKubernetes(ctx context.Context, kubeVirt *kubevirtv1.KubeVirt) []Result {
	if !olderThan(kubeVirt, strategicPatches) {
		return nil
	}

	s := c.viewer.about(checkKubeVirt, "Kubernetes")

	installed, err := c.viewer.getVersion(ctx)

	switch {
	case err != nil:
		return s.notChecked(err, "kubectl version")
	case installed.LessThan(version.MustParseGeneric(observedGenerations)):
		return nil
	default:
		return s.warn(fmt.Sprintf("KubeVirt %s may start no machine on Kubernetes %s: virt-controller 1.6.0 cannot patch the conditions of pods since %s (%s)",
			kubeVirt.Status.ObservedKubeVirtVersion, installed, observedGenerations, patchIssue),
			"upgrade KubeVirt to "+strategicPatches+" or newer, or keep Kubernetes at 1.33")
	}
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
