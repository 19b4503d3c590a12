// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

const checkEvery = 5 // looks

// stepTimeout bounds everything that the demo waits for.
func (d *demo) stepTimeout() time.Duration {
	if d.realNodes {
		return 30 * time.Minute //nolint:mnd // an emulated guest boots, on a busy machine
	}
	return 3 * time.Minute
}

// await shows the table until a condition is met. missing returns the unmet condition, or "".
func (d *demo) await(ctx context.Context, expected string, missing func(snapshot) string) (snapshot, error) {
	waiting, cancel := context.WithTimeout(ctx, d.stepTimeout())
	defer cancel()
	var last snapshot
	var rest string
	var failed error
	err := poll(waiting, func() (bool, error) {
		seen, err := d.look(waiting)
		if err != nil {
			if waiting.Err() == nil {
				failed = err // single failures are tolerated; only the last one is reported
			}
			return false, d.checkLab(waiting)
		}
		if d.realNodes {
			d.readCounter(waiting, seen)
		}
		last = seen
		failed = nil
		rest = missing(seen)
		d.show(seen)
		return rest == "", d.checkLab(waiting)
	})
	d.out.Settle()
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

// show draws the table and records its content.
func (d *demo) show(seen snapshot) {
	now := time.Now()
	d.seen.note(now, seen)
	rows := seen.rows()
	block := formatTable(rows, now)
	key := formatTable(rows, time.Time{})
	if d.realNodes {
		block += d.counterConsole() // which changes every second
	}
	d.out.Table(block, key)
}

// disappointed returns an error with the expected and the actual state and
// the location of the logs.
func (d *demo) disappointed(ctx context.Context, expected, seen string, failed error) error {
	err := fmt.Errorf("expected within %s: %s. Seen: %s. Logs: %s", d.stepTimeout(), expected, seen, d.lab.LogDir)
	return errors.Join(err, failed, d.checkProcesses(ctx))
}

// checkLab returns an error if waiting is futile. To save time it checks the processes
// only on every fifth call.
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

// awaitWorkers waits until exactly the wanted machines run, and checks that each
// is in its requested zone.
func (d *demo) awaitWorkers(ctx context.Context, want workers) error {
	return d.awaitThese(ctx, want.String(), want, "")
}

// awaitWorkersBeside does the same, whatever the machines of another class do.
func (d *demo) awaitWorkersBeside(ctx context.Context, want workers, other string) error {
	return d.awaitThese(ctx, fmt.Sprintf("%s but %s", want, other), want, other)
}

func (d *demo) awaitThese(ctx context.Context, expected string, want workers, other string) error {
	begun := time.Now()
	seen, err := d.await(ctx, expected, func(s snapshot) string { return s.without(other).reached(want) })
	if err != nil {
		return err
	}
	d.out.Line("Seen after %s: %s.", screen.Clock(time.Since(begun)), expected)
	for _, r := range seen.without(other).rows() {
		if r.zone != r.asked {
			return fmt.Errorf("expected %s in %s, as its MachineClass requests. Seen: on %s in %s. Logs: %s",
				r.name, r.asked, r.providerNode, r.zone, d.lab.LogDir)
		}
		d.out.Line("  %s requested %s and runs on %s in %s", r.name, r.asked, r.providerNode, r.zone)
	}
	return nil
}
