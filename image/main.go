// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command image writes the container image that the Dockerfile defines as an OCI layout, and beside
// it the image's SBOM. It takes built programs, which it checks; `make image` builds them and calls
// it. It needs no container engine, no registry and no base image. It is a separate Go module, so
// that the driver does not depend on the libraries for images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// supported are the architectures of a released image.
var supported = []string{"amd64", "arm64"}

// release describes the source of an image.
type release struct {
	definition

	// binaries is the folder with linux-ARCHITECTURE/PROGRAM.
	binaries string
	// architectures are the platforms of the image, all of Linux.
	architectures []string
	version       string
	// revision is the full commit hash; it ends in -dirty if files were changed after the commit.
	revision string
	// created is the time of the commit, so that later builds produce the same image.
	created time.Time
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// parse returns the release and the layout to write.
func parse(args []string) (r release, output string, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dockerfile := flags.String("dockerfile", "Dockerfile", "the Dockerfile that defines the image")
	architectures := flags.String("architectures", strings.Join(supported, " "), "the architectures of the image, separated by spaces")
	created := flags.Int64("created", 0, "the time of the commit, in seconds since 1970")
	flags.StringVar(&r.binaries, "binaries", "", "the folder with linux-ARCHITECTURE/PROGRAM")
	flags.StringVar(&output, "output", "", "the layout to write; an existing one is replaced")
	flags.StringVar(&r.version, "version", "", "the version that the programs were built with")
	flags.StringVar(&r.revision, "revision", "", "the commit that the programs were built from")

	if err := flags.Parse(args); err != nil {
		return r, "", fmt.Errorf("command line: %w", err)
	}

	if r.binaries == "" || output == "" || r.version == "" || r.revision == "" || flags.NArg() > 0 {
		return r, "", errors.New("command line: --binaries, --output, --version and --revision are required; --dockerfile, --architectures and --created are optional")
	}

	r.created = time.Unix(*created, 0).UTC()
	r.architectures = strings.Fields(*architectures)

	for _, architecture := range r.architectures {
		if !slices.Contains(supported, architecture) {
			return r, "", fmt.Errorf("command line: --architectures=%s: must be some of %v", *architectures, supported)
		}
	}

	r.definition, err = readDockerfile(*dockerfile)

	return r, output, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	r, output, err := parse(args)
	if err != nil {
		return err
	}

	programs, err := checkPrograms(ctx, r)
	if err != nil {
		return err
	}

	digest, err := write(output, r)
	if err != nil {
		return err
	}

	if err := writeSBOM(output+".spdx.json", r, programs, digest); err != nil {
		return err
	}

	fmt.Fprintf(out, "%s contains %s, built from %s, for linux/%s\n  index  %s\n  SBOM   %s.spdx.json\n",
		output, r.version, r.revision, strings.Join(r.architectures, ", linux/"), digest, output)
	fmt.Fprintf(out, "To push it: crane push %s REGISTRY/NAME:%s\n", output, r.version)

	return nil
}
