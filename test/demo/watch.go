package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	checkEvery  = 5               // looks
	stepTimeout = 3 * time.Minute // of everything that the show waits for
)

// await shows the table until a condition is reached. missing returns what is still to come, or "".
func (d *demo) await(ctx context.Context, expected string, missing func(snapshot) string) (snapshot, error) {
	waiting, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var last snapshot
	var rest string
	var failed error
	err := poll(waiting, func() (bool, error) {
		seen, err := d.look(waiting)
		if err != nil {
			if waiting.Err() == nil {
				failed = err // an answer may fail; only in the end it matters
			}
			return false, d.checkLab(waiting)
		}
		last, failed, rest = seen, nil, missing(seen)
		d.show(seen)
		return rest == "", d.checkLab(waiting)
	})
	d.out.settle()
	switch {
	case err == nil:
		return last, nil
	case ctx.Err() != nil:
		return last, ctx.Err()
	case !errors.Is(err, context.DeadlineExceeded):
		return last, err
	}
	return last, d.disappointed(ctx, expected, rest, failed)
}

// show draws the table and remembers what it has.
func (d *demo) show(seen snapshot) {
	now := time.Now()
	d.seen.note(now, seen)
	rows := seen.rows()
	d.out.table(formatTable(rows, now), formatTable(rows, time.Time{}))
}

// disappointed says what was expected, what was seen instead, and where to look.
func (d *demo) disappointed(ctx context.Context, expected, seen string, failed error) error {
	err := fmt.Errorf("expected within %s: %s. Seen: %s. Logs: %s", stepTimeout, expected, seen, d.lab.LogDir)
	return errors.Join(err, failed, d.checkProcesses(ctx))
}

// checkLab ends a wait early when it is in vain. It looks at all processes only now and then.
func (d *demo) checkLab(ctx context.Context) error {
	d.looks++
	if d.looks%checkEvery != 0 {
		return nil
	}
	if err := d.checkProcesses(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// checkProcesses returns an error if the lab, or a part of it, has ended.
func (d *demo) checkProcesses(ctx context.Context) error {
	state, err := d.labStatus(ctx)
	switch {
	case err != nil:
		return err
	case state != nil:
		return state.ended()
	case d.lab.child != nil:
		return fmt.Errorf("the lab has ended. Logs: %s. It said:\n%s", d.lab.LogDir, indent(d.lab.child.last.String()))
	default:
		return fmt.Errorf("the lab has ended. Logs: %s", d.lab.LogDir)
	}
}

// awaitWorkers waits until exactly the wanted machines run, and checks that each is in the zone that was asked for.
func (d *demo) awaitWorkers(ctx context.Context, want workers) error {
	begun := time.Now()
	seen, err := d.await(ctx, want.String(), func(s snapshot) string { return s.reached(want) })
	if err != nil {
		return err
	}
	d.out.line("Seen after %s: %s.", clock(time.Since(begun)), want)
	for _, r := range seen.rows() {
		if r.zone != r.asked {
			return fmt.Errorf("expected %s in %s, as its MachineClass asks. Seen: on %s in %s. Logs: %s",
				r.name, r.asked, r.providerNode, r.zone, d.lab.LogDir)
		}
		d.out.line("  %s asked for %s and runs on %s in %s", r.name, r.asked, r.providerNode, r.zone)
	}
	return nil
}
