// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench && node

package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

	const small, large = 256, 1024 // MiB. There is no room for fifty large disks.

	var rows []string

	for _, mebibytes := range []int{small, large} {
		url := serveRandom(t, mebibytes)
		copied := makeDisks(t, url, mebibytes, mebibytes == small, true)
		imported := makeDisks(t, url, mebibytes, mebibytes == small, false)

		for i, one := range copied {
			other := imported[i]
			rows = append(rows, row(fmt.Sprintf("%d MiB", mebibytes), one.what, duration.of(one.each), duration.of(other.each),
				duration.of(one.perGiB), duration.of(other.perGiB)))
			t.Log(rows[len(rows)-1])
		}
	}

	require.NoError(t, printTable(os.Stdout, row("image", "machines at once", "machine applied to disk complete: copy of a golden image",
		"import for each machine", "seconds per GiB of all disks: copy", "import"), rows))
}

// disks are what the root disks of machines took that were applied at once.
type disks struct {
	what         string
	each, perGiB []float64
}

// makeDisks measures one way with more and more machines. The first machine also imports the golden image, if there is one.
func makeDisks(t *testing.T, url string, mebibytes int, room, golden bool) []disks {
	t.Helper()

	s := harness.NewShoot(t)
	s.ApplyCredentials(t)
	addClass(t, s, harness.MergeFields(t, s.Spec(emptyZone, fmt.Sprintf(`{"source":{"http":{"url":%q}},
		"storage":{"accessModes":["ReadWriteMany"],"resources":{"requests":{"storage":"%dMi"}}}}`, url, mebibytes)),
		fmt.Sprintf(`{"disablePreAllocatedDataVolumes":%t}`, !golden)))
	s.RunControllers(t, "--unschedulable-grace=1h")

	sizes := []struct {
		what         string
		many, rounds int
	}{
		{"1, the first", 1, 1},
		{"1", 1, 5},
		{fmt.Sprint(ten), ten, 2},
		{fmt.Sprint(fifty), fifty, 1},
	}
	if !room {
		sizes = sizes[:3]
	}

	complete := seenInstances(t, s, func(*kubevirtv1.VirtualMachineInstance) bool { return true })

	var (
		all   []disks
		known int
	)

	for _, size := range sizes {
		d := disks{what: size.what}

		for range size.rounds {
			took := secondsOf(live(t, s, complete, known, size.many))
			known += size.many
			d.each = append(d.each, took...)
			d.perGiB = append(d.perGiB, slices.Max(took)/float64(size.many*mebibytes)*1024)
		}

		all = append(all, d)
	}

	endMachines(t, s)

	return all
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
