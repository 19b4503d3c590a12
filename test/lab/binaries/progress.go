// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// reporter prints the progress of a build.
type reporter struct {
	out     io.Writer
	todo    []step
	total   int
	started time.Time
}

// begin prints a line at once and every ten seconds until stop is called.
func (r reporter) begin(index int) (stop func()) {
	return screen.Report(r.out, func(elapsed time.Duration) string { return r.line(index, elapsed) })
}

func (r reporter) line(index int, elapsed time.Duration) string {
	s := r.todo[index]
	begin := fmt.Sprintf("step %d/%d %s, %s", s.number, r.total, s.name, screen.Clock(elapsed))
	left := max(s.estimate-elapsed, 0)
	for _, later := range r.todo[index+1:] {
		left += later.estimate
	}
	switch {
	case elapsed <= s.estimate:
		return fmt.Sprintf("%s, about %s left", begin, roughly(left))
	case left > 0:
		return fmt.Sprintf("%s, longer than expected, then about %s", begin, roughly(left))
	default:
		return begin + ", longer than expected"
	}
}

func (r reporter) finish() {
	fmt.Fprintf(r.out, "built %d of %d steps in %s\n", len(r.todo), r.total, screen.Clock(time.Since(r.started)))
}

func roughly(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// lock waits for the file lock that serializes builds. The kernel releases it when its holder dies.
func lock(ctx context.Context, file string, progress io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return nil, fmt.Errorf("create cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Clean(file), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open build lock: %w", err)
	}
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // Close releases the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("take build lock: %w", err), f.Close())
		}
		if !told {
			fmt.Fprintln(progress, "another lab is building; waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for build lock: %w", ctx.Err()), f.Close())
		case <-retry.C:
		}
	}
}
