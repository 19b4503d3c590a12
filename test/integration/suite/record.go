// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Record contains the data of one test process for the checks of the whole suite.
type Record struct {
	// Package is the topic package's name.
	Package string
	// Run and Skip are the values of go test's flags.
	Run, Skip string
	// Calls are the driver's requests to provider clusters in all tests of the process, and Covered
	// those that the crash matrix covers; nil if the process did not run the whole matrix.
	Calls, Covered []string
	// Denials are the namespaces in which a test removed permissions, with its reason.
	Denials map[string]string
	// Secrets are the secrets that the tests used, in addition to the constant ones.
	Secrets []Secret
	// Errors is the number of errors that the driver returned, and Scrapes that of scrapes of
	// sidecars.
	Errors, Scrapes int
	// WithCanary and WithoutCanary are the numbers of created machines, by their user data.
	WithCanary, WithoutCanary int
}

// Report leaves the record of a process. A second report of the same package replaces the first.
func (s *Suite) Report(r *Record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", r.Package, err)
	}

	if err := os.WriteFile(filepath.Join(s.records(), r.Package+".json"), raw, 0o600); err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Package, err)
	}

	return nil
}

func (s *Suite) records() string { return filepath.Join(s.dir, "records") }

// reported returns the records of all processes.
func (s *Suite) reported() ([]*Record, error) {
	files, err := filepath.Glob(filepath.Join(s.records(), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}

	records := make([]*Record, 0, len(files))

	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}

		r := &Record{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("decode record %s: %w", file, err)
		}

		records = append(records, r)
	}

	return records, nil
}

// skipLong is the -skip flag of `make test`: `make soak` runs these tests.
const skipLong = "^TestSoak"

// ranAll reports whether -run and -skip excluded no test, except the long ones.
func (r *Record) ranAll() bool { return r.Run == "" && (r.Skip == "" || r.Skip == skipLong) }

// isWhole reports whether each of these packages has run all its tests. Without packages it is
// false.
func isWhole(records []*Record, packages []string) bool {
	ran := map[string]bool{}
	for _, r := range records {
		ran[r.Package] = r.ranAll()
	}

	for _, name := range packages {
		if !ran[name] {
			return false
		}
	}

	return len(packages) > 0
}
