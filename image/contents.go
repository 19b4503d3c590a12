package main

import "time"

const (
	source  = "https://github.com/gardener/machine-controller-manager-provider-kubevirt"
	title   = "machine-controller-manager-provider-kubevirt"
	license = "Apache-2.0"

	// user is numeric because the kubelet can verify only a numeric user to be non-root
	// (runAsNonRoot). Distroless calls it nonroot.
	user = "65532:65532"
	// mode lets all users execute the programs, and none modify them.
	mode = 0o555
)

var (
	architectures = []string{"amd64", "arm64"}
	// programs are the only files, in their order in the layer.
	programs   = []string{"machine-controller", "mcm-kubevirt"}
	entrypoint = []string{"/machine-controller"}
)

// release describes the source of an image.
type release struct {
	version string
	// revision is the full commit hash; it ends in -dirty if files were changed after the commit.
	revision string
	// created is the time of the commit, so that later builds produce the same image.
	created time.Time
}

// labels returns the labels of https://specs.opencontainers.org/image-spec/annotations/.
func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": license,
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.revision,
		"org.opencontainers.image.created":  r.created.Format(time.RFC3339),
	}
}
