// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OutsideOfMethods names the requests of evacuation itself. No driver method sends them;
// evacuation's own tests remove the permissions for them.
const OutsideOfMethods = "outside of methods"

// calls compares the driver's calls in all tests with those that the crash matrix covers: a call
// made only in another test is missing in the matrix.
type calls struct {
	made map[string]bool
	// covered is nil if the whole matrix was not run.
	covered map[string]bool
}

func newCalls(records []*Record) *calls {
	c := &calls{made: map[string]bool{}}

	for _, r := range records {
		for _, call := range r.Calls {
			c.made[call] = true
		}

		for _, call := range r.Covered {
			if c.covered == nil {
				c.covered = map[string]bool{}
			}

			c.covered[call] = true
		}
	}

	return c
}

// uncovered returns the calls that the crash matrix does not cover.
func (c *calls) uncovered() []string {
	if c.covered == nil {
		return nil
	}

	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.made)), func(call string) bool {
		return c.covered[call] || strings.HasPrefix(call, OutsideOfMethods+": ")
	})
}

// String implements fmt.Stringer.
func (c *calls) String() string {
	uncovered := c.uncovered()

	switch {
	case c.covered == nil:
		return fmt.Sprintf("requests: %d calls, not compared with the crash matrix, which was not run as a whole", len(c.made))
	case len(uncovered) > 0:
		return "requests: calls that the crash matrix has not met:\n  " + strings.Join(uncovered, "\n  ")
	default:
		return fmt.Sprintf("requests: %d calls, all covered by the crash matrix", len(c.made))
	}
}
