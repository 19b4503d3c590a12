// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// survivor is a mutant that no unit test needs to kill.
type survivor struct {
	// File is its file, Line the text of the changed line, and Type the change, as gremlins names it.
	File string `json:"file"`
	Line string `json:"line"`
	Type string `json:"type"`
	// Reason says why.
	Reason string `json:"reason"`
}

func readSurvivors(name string) ([]survivor, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the accepted survivors: %w", err)
	}

	var all []survivor
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		return nil, fmt.Errorf("read the accepted survivors in %s: %w", name, err)
	}

	return all, nil
}

// count counts mutants by what became of them.
type count struct{ killed, survived, accepted, uncovered int }

func (c *count) add(other *count) {
	c.killed += other.killed
	c.survived += other.survived
	c.accepted += other.accepted
	c.uncovered += other.uncovered
}

// killedPart returns the part of the mutants in covered code that the tests killed. It ignores accepted ones.
func (c *count) killedPart() float64 {
	if c.killed+c.survived == 0 {
		return 1
	}

	return float64(c.killed) / float64(c.killed+c.survived)
}

// String implements fmt.Stringer.
func (c *count) String() string {
	return fmt.Sprintf("%d mutants killed, %d survived (%.1f %% killed), %d survivors accepted; %d in code that no unit test of its package runs",
		c.killed, c.survived, 100*c.killedPart(), c.accepted, c.uncovered)
}

// report prints the survivors that are not accepted, and counts all.
func report(out io.Writer, f folder, mutants []mutant, accepted []survivor) *count {
	c := &count{}

	for _, m := range mutants {
		switch m.Status {
		case "KILLED", "TIMED OUT": // A mutant that never ends is noticed, too.
			c.killed++
		case "NOT COVERED":
			c.uncovered++
		case "LIVED":
			line := textOf(m)
			if slices.ContainsFunc(accepted, func(s survivor) bool { return s.File == m.file && s.Line == line && s.Type == m.Type }) {
				c.accepted++

				continue
			}

			c.survived++

			fmt.Fprintf(out, "%s:%d: %s: %s\n", m.file, m.Line, m.Type, line)
		}
	}

	fmt.Fprintf(out, "%s: %s\n", f.path, c)

	return c
}

// textOf returns the line of a mutant, or an empty text if it cannot be read.
func textOf(m mutant) string {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return ""
	}

	lines := strings.Split(string(content), "\n")
	if m.Line < 1 || m.Line > len(lines) {
		return ""
	}

	return strings.TrimSpace(lines[m.Line-1])
}
