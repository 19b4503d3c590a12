// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command mutation changes single operators of the code, one at a time, and runs the unit tests of the
// package: a mutant that survives shows code that no unit test checks. `make mutate` calls it, for the
// packages that changed; a weekly workflow for all. It must not depend on what the packages do.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
)

// goal is the part of the mutants that the unit tests must kill.
const goal = 0.85

func main() {
	base := flag.String("base", "", "the commit since which packages must have changed; empty for all packages")
	tool := flag.String("gremlins", "", "the command that runs gremlins, such as 'go run MODULE@VERSION'")
	flag.Parse()

	if err := run(context.Background(), os.Stdout, *base, *tool); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, base, tool string) error {
	folders, err := foldersOf(ctx, base)
	if err != nil {
		return err
	}

	accepted, err := readSurvivors("test/mutation/survivors.yaml")
	if err != nil {
		return err
	}

	total := &count{}

	for _, f := range folders {
		mutants, err := f.mutate(ctx, out, tool)
		if err != nil {
			return err
		}

		total.add(report(out, f, mutants, accepted))
	}

	fmt.Fprintln(out, total)

	if total.killedPart() < goal {
		return fmt.Errorf("the unit tests killed less than %.0f %% of the mutants: add tests, or add survivors whose change has no effect to test/mutation/survivors.yaml", 100*goal)
	}

	return nil
}
