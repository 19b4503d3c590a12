package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// checkLeftovers warns of the disks of deleted machines that cannot be removed, such as a claim that a
// snapshot protects: they count against quotas, and no controller reports them.
func (c *checker) checkLeftovers(ctx context.Context) []Result {
	var results []Result

	for _, of := range []kind{kindClaim, kindVolume} {
		results = append(results, c.checkLeftoversOf(ctx, of)...)
	}

	return results
}

func (c *checker) checkLeftoversOf(ctx context.Context, of kind) []Result {
	labels := v1alpha1.TagCluster + " in (" + strings.Join(c.clusters(), ",") + ")"
	s := c.viewer.about(checkLeftover, fmt.Sprintf("%ss of the shoot in Namespace %s", of.name, c.namespace))
	get := kubectlIn(c.namespace, "get "+of.kubectl()) + " --selector=" + quoted(labels)

	found, err := providerapi.Leftovers(ctx, c.viewer.clients, of.resource, labels, c.now)

	switch {
	case apierrors.IsNotFound(err):
		return nil // checkCDI reports that.
	case err != nil:
		return s.notChecked(err, get)
	case len(found) == 0:
		return s.ok("none is left over from deleted machines")
	}

	texts := make([]string, len(found))
	for i, l := range found {
		texts[i] = fmt.Sprintf("%s (for %s, held by %s)", l.Name, duration.HumanDuration(c.now.Sub(l.DeletionTimestamp.Time)), orNone(l.Finalizers))
	}

	return s.warn("have been in deletion for too long, and count against quotas: "+shortened(texts, mostNamed, "; "),
		"find the pods and snapshots that hold the first, and delete them: "+kubectlIn(c.namespace, "describe "+of.kubectl(), found[0].Name)+
			" && kubectl --namespace "+quoted(c.namespace)+" get volumesnapshots; list all with "+get)
}

// clusters returns the tags with the clusters of the checked classes.
func (c *checker) clusters() []string {
	var clusters []string

	for _, class := range c.classes {
		if cluster := class.Machine.Identity().Cluster; !slices.Contains(clusters, cluster) {
			clusters = append(clusters, cluster)
		}
	}

	return clusters
}

// orNone joins names, or says that there are none.
func orNone(names []string) string {
	if len(names) == 0 {
		return "no finalizer"
	}

	return shortened(names, mostNamed, ", ")
}
