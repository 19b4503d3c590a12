// Command image writes the container image that the Dockerfile defines as an OCI layout, and reads
// it again to verify it. It takes built programs; `make image` builds them and calls it. It needs no
// container engine and no registry. It is a separate Go module, so that the driver does not depend
// on the libraries for images.
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

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	release

	dockerfile, binaries, output string
}

func parse(args []string) (options, error) {
	var (
		o             options
		created       int64
		architectures string
	)

	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.dockerfile, "dockerfile", "Dockerfile", "the Dockerfile that defines the image")
	flags.StringVar(&o.binaries, "binaries", "", "the folder with linux-ARCHITECTURE/PROGRAM")
	flags.StringVar(&architectures, "architectures", strings.Join(supported, " "), "the architectures of the image, separated by spaces")
	flags.StringVar(&o.output, "output", "", "the layout to write; an existing one is replaced")
	flags.StringVar(&o.version, "version", "", "the version that the programs were built with")
	flags.StringVar(&o.revision, "revision", "", "the commit that the programs were built from")
	flags.Int64Var(&created, "created", 0, "the time of that commit, in seconds since 1970")

	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("command line: %w", err)
	}

	if o.binaries == "" || o.output == "" || o.version == "" || o.revision == "" || flags.NArg() > 0 {
		return o, errors.New("command line: --binaries, --output, --version and --revision are required; --dockerfile, --architectures and --created are optional")
	}

	o.created = time.Unix(created, 0).UTC()
	o.architectures = strings.Fields(architectures)

	for _, architecture := range o.architectures {
		if !slices.Contains(supported, architecture) {
			return o, fmt.Errorf("command line: --architectures=%s: must be some of %v", architectures, supported)
		}
	}

	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}

	if o.definition, err = readDockerfile(o.dockerfile); err != nil {
		return err
	}

	// The output is either a verified layout or missing.
	next := o.output + ".new"
	if err := os.RemoveAll(next); err != nil {
		return fmt.Errorf("remove an unfinished layout: %w", err)
	}

	if err := write(next, o.binaries, o.release); err != nil {
		return err
	}

	found, err := check(ctx, next, o.release)
	if err != nil {
		return fmt.Errorf("%s deviates from the release:\n%w", next, err)
	}

	if err := replace(next, o.output); err != nil {
		return err
	}

	report(out, o, found)

	return nil
}

func replace(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("remove the previous layout: %w", err)
	}

	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("move the layout to its place: %w", err)
	}

	return nil
}
