package main

import "time"

const (
	source  = "https://github.com/gardener/machine-controller-manager-provider-kubevirt"
	title   = "machine-controller-manager-provider-kubevirt"
	license = "Apache-2.0"

	// user is a number, since only of a number the kubelet knows that it is not root (runAsNonRoot). Distroless calls it nonroot.
	user = "65532:65532"
	// mode lets everybody run the programs, and nobody change them.
	mode = 0o555
)

var (
	architectures = []string{"amd64", "arm64"}
	// programs are the only files, in the order in which they are in the layer.
	programs   = []string{"machine-controller", "mcm-kubevirt"}
	entrypoint = []string{"/machine-controller"}
)

// release is what an image is made of.
type release struct {
	version string
	// revision is the commit, in full; it ends in -dirty if files were changed after it.
	revision string
	// created is when the commit was made: whoever builds it later gets the same image.
	created time.Time
}

// labels are those of https://specs.opencontainers.org/image-spec/annotations/.
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
