package checks

import "context"

// checkSources checks that the objects exist that the machine's objects name, except for the golden
// image, which the driver creates.
func checkSources(ctx context.Context, r *reader, c *class) []Result {
	var results []Result

	for _, of := range c.references() {
		_, found := existence(ctx, r, &of)
		if of.kind == kindSource && found[0].Level == OK {
			found = checkDataSource(ctx, r, &of)
		}

		results = append(results, found...)
	}

	return results
}

// checkDataSource follows a DataSource to the object that it refers to at present.
func checkDataSource(ctx context.Context, r *reader, of *reference) []Result {
	s := r.about(of.subject())
	describe := kubectlIn(of.namespace, "describe "+of.kind.kubectl(), of.name)

	source, err := r.dataSource(ctx, of)
	if err != nil {
		return s.notChecked(err, describe)
	}

	next := resolvedSource(source, of.namespace)
	if len(next) == 0 {
		return s.fail("has no source that can be cloned", describe)
	}

	next[0].field = "spec.source of " + quoted(of.subject())
	_, found := existence(ctx, r, &next[0])

	return append(s.ok("exists and refers to "+next[0].subject()), found...)
}
