// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// checkLeftovers warns of the disks of deleted machines that cannot be removed, such as a claim that a
// snapshot protects: they count against quotas, and no controller reports them.
func checkLeftovers(ctx context.Context, r *reader, in *scope) []Result {
	return append(checkLeftoversOf(ctx, r, in, kindClaim), checkLeftoversOf(ctx, r, in, kindVolume)...)
}

func checkLeftoversOf(ctx context.Context, r *reader, in *scope, of kind) []Result {
	labels := v1alpha1.TagCluster + " in (" + strings.Join(in.clusters(), ",") + ")"
	s := r.about(fmt.Sprintf("%ss of the shoot in Namespace %s", of.name, r.namespace()))
	list := kubectlIn(r.namespace(), "get "+of.kubectl()) + " --selector=" + quoted(labels)

	found, err := r.leftovers(ctx, of, labels, in.now)

	switch {
	case apierrors.IsNotFound(err):
		return nil // The check of CDI reports that.
	case err != nil:
		return s.notChecked(err, list)
	case len(found) == 0:
		return s.ok("none is left over from deleted machines")
	}

	texts := make([]string, len(found))
	for i, l := range found {
		holders := cmp.Or(shortened(l.Finalizers, mostNamed, ", "), "no finalizer")
		texts[i] = fmt.Sprintf("%s (for %s, held by %s)", l.Name, duration.HumanDuration(in.now.Sub(l.DeletionTimestamp.Time)), holders)
	}

	return s.warn("have been in deletion for too long, and count against quotas: "+shortened(texts, mostNamed, "; "),
		"find the pods and snapshots that hold the first, and delete them: "+kubectlIn(r.namespace(), "describe "+of.kubectl(), found[0].Name)+
			" && kubectl --namespace "+quoted(r.namespace())+" get volumesnapshots; list all with "+list)
}
