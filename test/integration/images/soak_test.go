// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package images

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestSoakGoldenImageIsImportedOnce creates ten machines of each kind.
func TestSoakGoldenImageIsImportedOnce(t *testing.T) { requireOneImport(t, 10) }

// TestSoakMachinesAtOnceMakeOneImage creates fifty machines.
func TestSoakMachinesAtOnceMakeOneImage(t *testing.T) { requireOneImageOfTwoProcesses(t, 50) }

// TestSoakRacesOfSweepAndCreation forces the races between the sweep of images and the creation of
// machines two hundred times.
func TestSoakRacesOfSweepAndCreation(t *testing.T) {
	const rounds, shoots = 200, 8

	forced := races()
	next := make(chan int)

	var running sync.WaitGroup

	for range shoots {
		s := harness.NewShoot(t)

		running.Go(func() {
			for i := range next {
				r := forced[i%len(forced)]
				t.Run(fmt.Sprintf("%03d %s", i, r.name), func(t *testing.T) { r.run(t, s) })
			}
		})
	}

	for i := range rounds {
		next <- i
	}

	close(next)
	running.Wait()
	t.Logf("%d races", rounds)
}
