package main

import (
	"context"
	"time"
)

const pollEvery = time.Second

// poll calls done now and then every second until it returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
