// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestGoldenImageIsImportedOnce creates one machine of each kind. The soak creates ten.
func TestGoldenImageIsImportedOnce(t *testing.T) {
	t.Parallel()
	requireOneImport(t, 1)
}

// requireOneImport creates machines of three pools, with three sizes of root volumes and in two
// zones, from one image source, and counts CDI's imports.
func requireOneImport(t *testing.T, perZone int) {
	t.Helper()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	importers := countImporters(t, s)

	var machines []*harness.Machine

	for _, pool := range []string{"blue", "green", "red"} {
		for size := 2; size <= 4; size++ {
			for _, zone := range []string{"zone-a", "zone-b"} {
				for range perZone {
					machines = append(machines, newPoolMachine(t, s, pool, zone, fmt.Sprintf(`{"goldenImage":{"size":"1Gi"},"rootVolume":{
						"source":{"http":{"url":"https://images.example.com/worker.qcow2"}},
						"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"%dGi"}}}}}`, size)))
				}
			}
		}
	}

	createAll(t, d, machines)
	imports, clones := awaitDisks(t, s, len(machines))
	t.Logf("%d machines of 3 pools, 3 sizes and 2 zones: %d import, by %d importer pod; %d clones", len(machines), imports, importers(), clones)
	require.Equal(t, 1, imports, "the image is imported once")
	require.Equal(t, 1, importers())
	require.Equal(t, len(machines), clones)

	removeAll(t, d, machines)
	s.RequireNothingLeft(t)
}

// TestImportPerMachine counts the imports without golden images.
func TestImportPerMachine(t *testing.T) {
	t.Parallel()

	const count = 6

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	importers := countImporters(t, s)

	var machines []*harness.Machine
	for range count {
		machines = append(machines, newPoolMachine(t, s, "blue", "zone-a", `{"disablePreAllocatedDataVolumes":true}`))
	}

	createAll(t, d, machines)
	imports, clones := awaitDisks(t, s, count)
	t.Logf("%d machines with disablePreAllocatedDataVolumes: %d imports, by %d importer pods; %d clones", count, imports, importers(), clones)
	require.Equal(t, count, imports)
	require.Equal(t, count, importers())
	require.Zero(t, clones)

	removeAll(t, d, machines)
	s.RequireNothingLeft(t)
}

// TestMachinesAtOnceMakeOneImage creates sixteen machines. The soak creates fifty.
func TestMachinesAtOnceMakeOneImage(t *testing.T) {
	t.Parallel()
	requireOneImageOfTwoProcesses(t, 16)
}

// requireOneImageOfTwoProcesses lets two independent processes create machines concurrently.
func requireOneImageOfTwoProcesses(t *testing.T, count int) {
	t.Helper()

	c := &harness.Counter{}
	s := harness.NewShoot(t)
	settings := harness.Settings{
		Grace: harness.Settled,
		Wrap:  func(next http.RoundTripper) http.RoundTripper { return wrapDataVolumes(c, next) },
	}
	drivers := []driver.Driver{harness.NewDriver(settings), harness.NewDriver(settings)}

	var machines []*harness.Machine
	for range count {
		machines = append(machines, s.NewMachine("zone-a", harness.ImportedRoot))
	}

	require.NoError(t, each(machines, func(i int, m *harness.Machine) error {
		_, err := m.Create(t.Context(), drivers[i%len(drivers)])

		return err
	}))

	reads, writes, _ := c.Take()
	t.Logf("%d machines at once, by two processes: %d attempts to create the image, %d reads of it", count, writes, reads)
	require.Equal(t, 2, writes, "one per process")
	require.Equal(t, 1, reads, "by the second process")

	imports, clones := awaitDisks(t, s, count)
	require.Equal(t, 1, imports)
	require.Equal(t, count, clones)

	removeAll(t, drivers[0], machines)
	s.RequireNothingLeft(t)
}

// TestGoldenImageOnEachStorageClass creates and deletes a machine in each zone.
func TestGoldenImageOnEachStorageClass(t *testing.T) {
	t.Parallel()

	for _, class := range []string{"wait", "immediate", "copy"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()

			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{Grace: harness.Settled})

			for _, zone := range []string{"zone-a", "zone-b"} {
				m := s.NewMachine(zone, rootOf(class))
				_, err := m.Create(t.Context(), d)
				require.NoError(t, err)
				m.AwaitScheduled(t, d)
				s.RequireInZone(t, m.Name(), zone)
				require.NoError(t, m.Remove(t.Context(), d))
			}

			require.Len(t, s.Images(t), 1)
			s.RequireNothingLeft(t)
		})
	}
}

func rootOf(storageClass string) string {
	return fmt.Sprintf(`{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
		"storage":{"storageClassName":%q,"resources":{"requests":{"storage":"1Gi"}}}}`, storageClass)
}

// TestShootsDoNotShareGoldenImages uses one namespace for two shoots and a foreign DataVolume.
func TestShootsDoNotShareGoldenImages(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	mine := s.NewMachine("zone-a", harness.ImportedRoot)
	theirs := s.NewMachine("zone-a", harness.ImportedRoot)
	theirs.Class.ProviderSpec.Raw = []byte(harness.MustReplace(string(theirs.Class.ProviderSpec.Raw), s.Namespace, s.Namespace+"-b"))

	for _, m := range []*harness.Machine{mine, theirs} {
		_, err := m.Create(t.Context(), d)
		require.NoError(t, err)
		m.AwaitScheduled(t, d)
	}

	require.Len(t, s.Images(t), 2)
	s.RequireBehindLoadBalancers(t, s.Namespace, mine.Name())
	s.RequireBehindLoadBalancers(t, s.Namespace+"-b", theirs.Name())

	// A foreign DataVolume with the labels of the image.
	stranger := s.Rendered(t, mine)
	stranger.Name = "stranger"
	stranger.Annotations = nil
	_, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), stranger, metav1.CreateOptions{})
	require.NoError(t, err)

	mine.DeleteClass()
	require.NoError(t, mine.Remove(t.Context(), d))

	left := s.Images(t)
	require.NotContains(t, left, s.Rendered(t, mine).Name)
	require.Contains(t, left, s.Rendered(t, theirs).Name)
	require.Contains(t, left, "stranger")

	require.NoError(t, theirs.Remove(t.Context(), d))
	s.DeleteImages(t, s.Namespace+"-b")
	s.RequireNothingLeft(t, "DataVolume stranger", "PersistentVolumeClaim stranger")
}

// newPoolMachine returns a machine of a pool and zone, with fields overlaid on its spec.
func newPoolMachine(t *testing.T, s *harness.Shoot, pool, zone, fields string) *harness.Machine {
	t.Helper()

	m := s.NewMachine(zone, harness.ImportedRoot)
	m.Class.Name = pool + "-" + zone
	m.Machine.Labels["name"] = m.Class.Name
	m.Machine.Spec.NodeTemplateSpec.Labels = map[string]string{v1alpha1.LabelWorkerPool: pool}
	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, fields)

	return m
}

// atOnce is the number of concurrent calls, that of machine-controller-manager's workers.
const atOnce = 50

// each calls do for all machines concurrently, and returns their errors.
func each(machines []*harness.Machine, do func(i int, m *harness.Machine) error) error {
	errs := make([]error, len(machines))
	places := make(chan struct{}, atOnce)

	var running sync.WaitGroup

	for i, m := range machines {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()

			errs[i] = do(i, m)
		})
	}

	running.Wait()

	return errors.Join(errs...)
}

func createAll(t *testing.T, d driver.Driver, machines []*harness.Machine) {
	t.Helper()

	require.NoError(t, each(machines, func(_ int, m *harness.Machine) error {
		_, err := m.Create(t.Context(), d)

		return err
	}))
}

func removeAll(t *testing.T, d driver.Driver, machines []*harness.Machine) {
	t.Helper()
	require.NoError(t, each(machines, func(_ int, m *harness.Machine) error { return m.Remove(t.Context(), d) }))
}

// awaitDisks waits until the given number of root volumes are complete, and returns the numbers of
// imported and of cloned DataVolumes.
func awaitDisks(t *testing.T, s *harness.Shoot, count int) (imports, clones int) {
	t.Helper()

	harness.Eventually(t, "all root volumes are complete", func(ctx context.Context) (bool, error) {
		list, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		disks := 0
		imports = 0
		clones = 0

		for i := range list.Items {
			dv := &list.Items[i]

			if dv.Spec.Source.PVC != nil {
				clones++
			} else {
				imports++
			}

			if dv.Labels[render.LabelMachine] != "" && dv.Status.Phase == cdiv1beta1.Succeeded {
				disks++
			}
		}

		return disks == count, nil
	})

	return imports, clones
}

// countImporters counts the importer pods in the provider namespace from now on.
func countImporters(t *testing.T, s *harness.Shoot) func() int {
	t.Helper()

	importers, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "cdi.kubevirt.io=importer"})
	require.NoError(t, err)

	var (
		mu    sync.Mutex
		count int
	)

	go func() {
		for event := range importers.ResultChan() {
			if event.Type == watch.Added {
				mu.Lock()
				count++
				mu.Unlock()
			}
		}
	}()

	return func() int {
		mu.Lock()
		defer mu.Unlock()

		return count
	}
}

// wrapDataVolumes counts only requests for DataVolumes.
func wrapDataVolumes(c *harness.Counter, next http.RoundTripper) http.RoundTripper {
	counted := c.Wrap(next)

	return harness.Transport(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/datavolumes") {
			return counted.RoundTrip(r)
		}

		return next.RoundTrip(r)
	})
}
