package checks

// Incompatibilities are the pairs of versions of KubeVirt and Kubernetes: the first version of KubeVirt that
// is not affected, and the first version of Kubernetes that is.
var Incompatibilities = func() (pairs [][2]string) {
	for _, i := range incompatibilities {
		pairs = append(pairs, [2]string{i.before, i.since})
	}

	return pairs
}()
