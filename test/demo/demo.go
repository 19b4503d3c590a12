// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// chapter is one part of the demo.
type chapter struct {
	title string
	play  func(*demo, context.Context) error
}

// options are the command line options.
type options struct {
	keep      bool // leave the lab running
	overGRPC  bool // run the driver in a separate process
	realNodes bool // run one worker on real provider nodes
}

// demo is the running demo.
type demo struct {
	out  *screen.Screen
	root string // of the repository
	options
	begun time.Time
	spent []duration
	lab   *lab // nil before it is ready
	seen  sights
	looks int

	counter counter // only with real nodes
	moves   int     // live migrations of the counter
}

// duration is the time taken by a chapter.
type duration struct {
	title string
	took  time.Duration
}

func newDemo(out *screen.Screen, o options) (*demo, error) {
	root, err := compile.Root()
	if err != nil {
		return nil, err
	}
	return &demo{out: out, root: root, options: o, begun: time.Now(), seen: newSights()}, nil
}

// perform runs one chapter and measures its duration.
func (d *demo) perform(ctx context.Context, number, of int, c chapter) error {
	d.out.Line("")
	d.out.Line("=== %d/%d  %s", number, of, c.title)
	begun := time.Now()
	err := c.play(d, ctx)
	d.out.Settle()
	d.spent = append(d.spent, duration{c.title, time.Since(begun)})
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // the interruption caused the failure
	}
	return err
}

// close stops the lab and removes its files. If keep is set, the lab stays, unless the demo was
// interrupted.
func (d *demo) close(ctx context.Context, failed error) error {
	if d.lab == nil {
		return nil
	}
	interrupted := errors.Is(failed, context.Canceled)
	if d.keep && !interrupted {
		if failed != nil {
			d.out.Line("The lab is still running, so that you can explore it. Logs: %s", d.lab.LogDir)
			d.out.Line("Run `make demo-stop` to stop it.")
		}
		return nil
	}
	d.out.Line("")
	d.out.Line("Stopping the lab ...")
	if err := d.stopLab(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if failed != nil && !interrupted {
		d.out.Line("The lab is stopped. Its logs stay for a day: %s", d.lab.LogDir)
		return nil
	}
	d.out.Line("The lab is stopped; all its processes and data are gone.")
	return d.lab.removeLogs()
}
