package main

import (
	"fmt"
	"io"
)

// report prints a summary of the image, and the commands to push it.
func report(out io.Writer, o options, found contents) {
	fmt.Fprintf(out, "%s contains %s, built from %s\n", o.output, o.version, o.revision)
	fmt.Fprintf(out, "  index        %s\n", found.digest)

	for _, image := range found.images {
		fmt.Fprintf(out, "  linux/%s  %s  %s to pull", image.architecture, image.digest, mebibytes(image.compressed))

		for _, f := range image.files {
			fmt.Fprintf(out, ", %s %s", f.header.Name, mebibytes(f.header.Size))
		}

		fmt.Fprintln(out, ran(image.architecture))
	}

	fmt.Fprintf(out, `To push it, with one of
  crane push %[1]s REGISTRY/NAME:%[2]s
  skopeo copy --all oci:%[1]s:%[2]s docker://REGISTRY/NAME:%[2]s
`, o.output, o.version)
}

func ran(architecture string) string {
	if runsHere(architecture) {
		return "; both were run"
	}

	return "; read only, since they do not run on this machine"
}

func mebibytes(size int64) string { return fmt.Sprintf("%.1f MiB", float64(size)/(1<<20)) }
