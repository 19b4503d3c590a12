// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench && node

package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// TestGoldenImages compares the two ways to a root disk that need no storage driver: CDI copies a golden image, or imports the
// image from a web server for each machine. The instances are never scheduled, since there is no memory for fifty of them:
// KubeVirt creates an instance when its disks are complete.
func TestGoldenImages(t *testing.T) {
	logByDefault(t)
	// With more, the receiving pods of fifty copies fill both nodes, and no sending pod starts.
	harness.NewShoot(t).RequestForCDI(t, "10m")

	const small, large = 256, 1024 // MiB. There is no room for fifty large disks.

	var rows []string

	for _, mebibytes := range []int{small, large} {
		url := serveRandom(t, mebibytes)
		ways := []*disks{newDisks(t, url, mebibytes, true), newDisks(t, url, mebibytes, false)}

		for _, size := range []struct {
			what         string
			many, rounds int
		}{
			{"1, the first", 1, 1},
			{"1", 1, 5},
			{fmt.Sprint(ten), ten, 2},
			{fmt.Sprint(fifty), fifty, 2},
		} {
			if size.many == fifty && mebibytes == large {
				continue
			}

			each, perGiB := [2][]float64{}, [2][]float64{}

			inTurns(size.rounds, func(way int) {
				took := ways[way].create(t, size.many)
				each[way] = append(each[way], took...)
				perGiB[way] = append(perGiB[way], slices.Max(took)/float64(size.many*mebibytes)*1024)
			})

			rows = append(rows, row(fmt.Sprintf("%d MiB", mebibytes), size.what, duration.of(each[0]), duration.of(each[1]),
				duration.of(perGiB[0]), duration.of(perGiB[1])))
			t.Log(rows[len(rows)-1])
		}

		for _, way := range ways {
			endMachines(t, way.Shoot)
		}
	}

	require.NoError(t, printTable(t.Context(), os.Stdout, row("image", "machines at once", "machine applied to disk complete: copy of a golden image",
		"import for each machine", "seconds per GiB of all disks: copy", "import"), rows))
}

// disks are root disks that are created in one way.
type disks struct {
	*harness.Shoot

	complete *seen
	created  int // so far
}

// newDisks runs controllers that create disks from an image. The first machine also imports the golden image, if there is one.
func newDisks(t *testing.T, url string, mebibytes int, golden bool) *disks {
	t.Helper()

	s := harness.NewShoot(t)
	s.ApplyCredentials(t)
	addClass(t, s, harness.MergeFields(t, s.Spec(emptyZone, fmt.Sprintf(`{"source":{"http":{"url":%q}},
		"storage":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"%dMi"}}}}`, url, mebibytes)),
		fmt.Sprintf(`{"disablePreAllocatedDataVolumes":%t}`, !golden)))
	s.RunControllers(t, "--unschedulable-grace=1h")

	return &disks{Shoot: s, complete: seenInstances(t, s, func(*kubevirtv1.VirtualMachineInstance) bool { return true })}
}

// create returns the seconds that the disks of machines applied at once take. Then it waits until they are deleted, which other
// disks must not be measured beside.
func (d *disks) create(t *testing.T, many int) []float64 {
	t.Helper()

	took := live(t, d.Shoot, d.complete, d.created, many)
	d.created += many

	harness.Within(t, limit(many), "the disks are deleted", func(ctx context.Context) (bool, error) {
		left, err := d.Leftovers(ctx)

		return !slices.ContainsFunc(left, func(object string) bool { return strings.Contains(object, d.Name) }), err
	})

	return secondsOf(took)
}

// serveRandom serves an image that cannot be compressed to the nodes, and returns its URL.
func serveRandom(t *testing.T, mebibytes int) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "disk.raw")
	image, err := os.Create(file)
	require.NoError(t, err)

	_, err = io.CopyN(image, rand.NewChaCha8([32]byte{}), int64(mebibytes)<<20)
	require.NoError(t, err)
	require.NoError(t, image.Close())

	var listen net.ListenConfig

	listener, err := listen.Listen(t.Context(), "tcp", node.Gateway+":0")
	require.NoError(t, err)

	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }),
	}

	go func() { _ = server.Serve(listener) }()

	t.Cleanup(func() { _ = server.Close() })

	return "http://" + listener.Addr().String() + "/disk.raw"
}
