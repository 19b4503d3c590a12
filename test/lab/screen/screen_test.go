// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testScreen returns a screen with a settable clock and width.
func testScreen(width int) (s *Screen, out *strings.Builder, now *time.Time) {
	out = &strings.Builder{}
	now = new(time.Time)
	*now = time.Unix(1000, 0)
	s = &Screen{out: out, now: func() time.Time { return *now }}
	if width > 0 {
		s.width = func() int { return width }
	}
	return s, out, now
}

func TestTerminalRedrawsInPlace(t *testing.T) {
	t.Parallel()
	s, out, _ := testScreen(10)
	s.Table("one\ntwo", "")
	s.Table("three words here", "")
	s.Line("that is %d", 1)
	s.Table("four", "")
	require.Equal(t, "one\ntwo\n\x1b[2A\x1b[Jthree ...\nthat is 1\nfour\n", out.String())
}

func TestLogGetsATableOnlyWhenSomethingChanged(t *testing.T) {
	t.Parallel()
	s, out, now := testScreen(0)
	s.Table("first, age 1", "first")
	*now = now.Add(progressEvery - time.Second)
	s.Table("first, age 2", "first")
	require.Equal(t, "first, age 1\n", out.String(), "a changed age alone is not printed")
	s.Table("second", "second")
	*now = now.Add(tableEvery / 2)
	s.Table("third", "third")
	require.Equal(t, "first, age 1\nsecond\n", out.String(), "changes are not printed too often")
	s.Settle()
	require.Equal(t, "first, age 1\nsecond\nthird\n", out.String(), "the last state is printed")
}

func TestTable_RepeatsInLog(t *testing.T) {
	t.Parallel()
	s, out, now := testScreen(0)
	s.Table("first, age 1", "first")
	*now = now.Add(progressEvery)
	s.Table("first, age 2", "first")
	require.Equal(t, "first, age 1\nfirst, age 2\n", out.String(), "a log shows that the demo goes on")
}

func TestProgress_PrintsEvery30Seconds(t *testing.T) {
	t.Parallel()
	s, out, now := testScreen(0)
	for range 13 { // two minutes of reports
		s.Progress("build", "build")
		*now = now.Add(reportEvery)
	}
	require.Equal(t, 5, strings.Count(out.String(), "build\n"))
}

func TestLines_DrawsReports(t *testing.T) {
	t.Parallel()
	s, out, _ := testScreen(80)
	_, err := (&Lines{Screen: s}).Write([]byte("build demo, 0:00, none\nbuild demo, 0:10, some\nbuilding, not a report\n"))
	require.NoError(t, err)
	require.Equal(t, "  build demo, 0:00, none\n\x1b[1A\x1b[J  build demo, 0:10, some\n  building, not a report\n", out.String())
}

func TestLogGetsProgressThatIsNewOrOld(t *testing.T) {
	t.Parallel()
	s, out, now := testScreen(0)
	l := &Lines{Screen: s}
	write := func(text string) {
		_, err := l.Write([]byte(text))
		require.NoError(t, err)
	}
	write("step 1/9 etcd, 0:00, about 2 min left\nstep 1/9 etcd, 0:10, about")
	write(" 2 min left\n")
	require.Equal(t, "  step 1/9 etcd, 0:00, about 2 min left\n", out.String())
	*now = now.Add(progressEvery)
	write("step 1/9 etcd, 0:40, about 2 min left\nstep 2/9 kubectl, 0:00, about 1 min left\nready\n")
	l.Hush()
	write("a process ended\n")
	require.Equal(t, "  step 1/9 etcd, 0:00, about 2 min left\n  step 1/9 etcd, 0:40, about 2 min left\n"+
		"  step 2/9 kubectl, 0:00, about 1 min left\n  ready\n", out.String())
	require.Contains(t, l.Tail.String(), "a process ended")
}

func TestLinesEndWithTheLastOne(t *testing.T) {
	t.Parallel()
	s, out, _ := testScreen(0)
	l := &Lines{Screen: s, Last: func(line string) bool { return strings.HasPrefix(line, "lab ") }}
	_, err := l.Write([]byte("starting\nlab \"demo\" is ready (pid 1)\n  how to use it alone\n"))
	require.NoError(t, err)
	require.Equal(t, "  starting\n", out.String())
	require.Contains(t, l.Tail.String(), "how to use it alone")
}

func TestClock(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0:09", Clock(9400*time.Millisecond))
	require.Equal(t, "61:01", Clock(time.Hour+time.Minute+time.Second))
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var kept Tail
	for range 3 {
		_, err := kept.Write([]byte(strings.Repeat("x", tailSize-1) + "\n"))
		require.NoError(t, err)
	}
	_, err := kept.Write([]byte("the end"))
	require.NoError(t, err)
	require.Len(t, kept.String(), tailSize)
	require.True(t, strings.HasSuffix(kept.String(), "x\nthe end"))
}
