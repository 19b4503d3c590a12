// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecords(t *testing.T) {
	t.Parallel()

	s := &Suite{dir: t.TempDir()}
	require.Error(t, s.Report(&Record{Package: "images"}), "the folder for records is missing")
	require.NoError(t, s.makeFolders())

	images := &Record{Package: "images", Skip: skipLong, Calls: []string{"a"}, Secrets: []Secret{{Name: "key", Text: []byte{0xff}}}}
	crash := &Record{Package: "crash", Calls: []string{"b"}, Covered: []string{"a", "b"}, Denials: map[string]string{"n": "why"}}

	require.NoError(t, s.Report(&Record{Package: "images", Run: "TestX"}))
	require.NoError(t, s.Report(images))
	require.NoError(t, s.Report(crash))

	records, err := s.reported()
	require.NoError(t, err)
	require.Equal(t, []*Record{crash, images}, records, "the second report of a package replaces its first")
}

func TestIsWhole(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		records  []*Record
		packages []string
		want     bool
	}{
		"alone":    {reason: "a package that runs alone uses only some permissions", records: []*Record{{Package: "a"}}},
		"all":      {reason: "long tests may be missing", records: []*Record{{Package: "a"}, {Package: "b", Skip: skipLong}}, packages: []string{"a", "b"}, want: true},
		"missing":  {reason: "a process that died leaves no record", records: []*Record{{Package: "a"}}, packages: []string{"a", "b"}},
		"selected": {reason: "-run excludes tests", records: []*Record{{Package: "a", Run: "TestX"}}, packages: []string{"a"}},
		"skipped":  {reason: "so does -skip", records: []*Record{{Package: "a", Skip: "TestX"}}, packages: []string{"a"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, isWhole(tc.records, tc.packages), tc.reason)
		})
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()

	images := &Record{Calls: []string{"CreateMachine: create secrets", "CreateMachine: get secrets", OutsideOfMethods + ": list machines"}}
	require.Empty(t, newCalls([]*Record{images}).uncovered(), "without the matrix nothing can be compared")

	crash := &Record{Covered: []string{"CreateMachine: create secrets"}}
	compared := newCalls([]*Record{images, crash})
	require.Equal(t, []string{"CreateMachine: get secrets"}, compared.uncovered())
	require.Contains(t, compared.String(), "CreateMachine: get secrets")

	crash.Covered = append(crash.Covered, "CreateMachine: get secrets")
	require.Empty(t, newCalls([]*Record{images, crash}).uncovered())
}

func TestNeedlesOfAllRecords(t *testing.T) {
	t.Parallel()

	s := newSearch(needlesIn([]*Record{{Secrets: []Secret{{Name: "key", Text: []byte("0123456789abcdef")}}}}))
	s.inContent("log", []byte("with 0123456789abcdef and "+UserDataCanary))
	require.Len(t, s.findings, 2)
}
