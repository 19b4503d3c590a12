package preflight

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// merged turns the results of all checks into those of the report: one remedy per quota, and one
// result for the same problem in several classes.
func merged(namespace string, results []Result) []Result {
	return deduplicated(withSharedRemedies(namespace, results))
}

// withSharedRemedies gives all results that report shortages of a quota the same remedy, which
// raises the quota once and far enough for each of them.
func withSharedRemedies(namespace string, results []Result) []Result {
	bounds := map[string]corev1.ResourceList{}

	for i := range results {
		for _, l := range results[i].shortages {
			if bounds[l.quota] == nil {
				bounds[l.quota] = corev1.ResourceList{}
			}

			if known, ok := bounds[l.quota][l.name]; !ok || known.Cmp(l.enough()) < 0 {
				bounds[l.quota][l.name] = l.enough()
			}
		}
	}

	for i := range results {
		if r := &results[i]; len(r.shortages) > 0 {
			r.Remedy = statustext.Printable(patchQuotas(namespace, quotasOf(r.shortages), bounds))
		}
	}

	return results
}

func quotasOf(missing []shortage) []string {
	names := map[string]bool{}
	for _, l := range missing {
		names[l.quota] = true
	}

	return slices.Sorted(maps.Keys(names))
}

// enough returns the bound at which the quota suffices.
func (l shortage) enough() resource.Quantity {
	hard := plus(l.hard, l.need)
	hard.Sub(l.left)

	return hard
}

// resultKey identifies results that differ only in their classes.
type resultKey struct {
	check, subject, message, remedy, identity string
	level                                     Level
}

// deduplicated moves a problem that several classes share to the results
// for the whole cluster, which come first.
func deduplicated(results []Result) []Result {
	classes := map[resultKey][]string{}
	key := func(r *Result) resultKey {
		return resultKey{r.Check, r.Subject, r.Message, r.Remedy, r.Identity, r.Level}
	}

	for i := range results {
		if r := &results[i]; r.Level != OK && r.Class != "" {
			classes[key(r)] = append(classes[key(r)], r.Class)
		}
	}

	var (
		kept     []Result
		reported = map[resultKey]bool{}
	)

	for i := range results {
		r := results[i]
		if of := slices.Compact(classes[key(&r)]); r.Class != "" && r.Level != OK && len(of) > 1 {
			if reported[key(&r)] {
				continue
			}

			reported[key(&r)] = true
			r.Class, r.Classes = "", of
		}

		kept = append(kept, r)
	}

	slices.SortStableFunc(kept, func(a, b Result) int { return cmp.Compare(min(len(a.Class), 1), min(len(b.Class), 1)) })

	return kept
}
