// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Verdict is the result of the checks that need the records of all tests: the search for secrets in
// everything that the driver wrote, the comparison of the driver's calls with those that the crash
// matrix covers, and that of the shipped permissions with the used ones.
type Verdict struct {
	records []*Record
	objects *objectLog
	secrets *search
	calls   *calls
	rights  *rights
}

// Judge ends the recording of objects and checks the records. It must be called after the last
// report. Rights that were not used are wrong only if each of the packages has run all its tests.
func (s *Suite) Judge(packages []string) (*Verdict, error) {
	s.objects.stop()

	records, err := s.reported()
	if err != nil {
		return nil, err
	}

	v := &Verdict{records: records, objects: s.objects, secrets: newSearch(needlesIn(records)), calls: newCalls(records)}

	for _, pattern := range []string{"recorded-*.log", "*-machine-controller*.log", "*-driver*.log"} {
		if err := v.secrets.in(filepath.Join(s.Lab.LogDir, pattern)); err != nil {
			return nil, fmt.Errorf("search for secrets: %w", err)
		}
	}

	v.rights, err = auditRights(s.Lab, records, isWhole(records, packages))

	return v, err
}

// Passed reports whether all checks passed.
func (v *Verdict) Passed() bool {
	return len(v.secrets.findings) == 0 && len(v.calls.uncovered()) == 0 && !v.rights.wrong()
}

// String describes the results of all checks.
func (v *Verdict) String() string {
	var sum Record
	for _, r := range v.records {
		sum.Errors, sum.Scrapes = sum.Errors+r.Errors, sum.Scrapes+r.Scrapes
		sum.WithCanary, sum.WithoutCanary = sum.WithCanary+r.WithCanary, sum.WithoutCanary+r.WithoutCanary
	}

	recorded := fmt.Sprintf("recorded: %d errors of the driver, %d scrapes of sidecars, states of %v; %d machines' user data held the canary, %d did not",
		sum.Errors, sum.Scrapes, v.objects.counts(), sum.WithCanary, sum.WithoutCanary)

	return strings.Join([]string{recorded, v.secrets.String(), v.calls.String(), v.rights.String()}, "\n")
}
