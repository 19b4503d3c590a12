//go:build soak || bench

package integration

import (
	"fmt"
	"sync"
	"testing"
)

// haltedVMs makes so many VirtualMachines of the shoot that nobody starts, and others of another shoot in the same namespace.
func (s *shoot) haltedVMs(t *testing.T, many, others int) {
	t.Helper()

	const atOnce = 16

	names := make(chan string)

	var making sync.WaitGroup

	for range atOnce {
		making.Go(func() {
			for name := range names {
				cluster := s.Namespace
				if name[:1] == "o" {
					cluster += "-b"
				}

				s.haltedVM(t, name, map[string]string{"mcm.gardener.cloud/cluster": cluster, "mcm.gardener.cloud/role": "node"})
			}
		})
	}

	for i := range many {
		names <- fmt.Sprintf("m-%d", i)
	}

	for i := range others {
		names <- fmt.Sprintf("o-%d", i)
	}

	close(names)
	making.Wait()
}
