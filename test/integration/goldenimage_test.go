package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// TestGoldenImageIsImportedOnce makes one machine of each kind. The soak makes ten.
func TestGoldenImageIsImportedOnce(t *testing.T) {
	t.Parallel()
	requireOneImport(t, 1)
}

// requireOneImport makes machines of three pools, with three sizes of root volumes and in two zones, from one address, and counts what
// CDI imports.
func requireOneImport(t *testing.T, perZone int) {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: settled})
	importers := s.countImporters(t)

	var machines []*machine

	for _, pool := range []string{"blue", "green", "red"} {
		for size := 2; size <= 4; size++ {
			for _, zone := range []string{"zone-a", "zone-b"} {
				for range perZone {
					machines = append(machines, s.newPoolMachine(t, pool, zone, fmt.Sprintf(`{"goldenImage":{"size":"1Gi"},"rootVolume":{
						"source":{"http":{"url":"https://images.example.com/worker.qcow2"}},
						"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"%dGi"}}}}}`, size)))
				}
			}
		}
	}

	createAll(t, d, machines)
	imports, clones := s.awaitDisks(t, len(machines))
	t.Logf("%d machines of 3 pools, 3 sizes and 2 zones: %d import, by %d importer pod; %d clones", len(machines), imports, importers(), clones)
	require.Equal(t, 1, imports, "the image is imported once")
	require.Equal(t, 1, importers())
	require.Equal(t, len(machines), clones)

	removeAll(t, d, machines)
	s.requireNothingLeft(t)
}

// TestImportPerMachine shows what golden images save.
func TestImportPerMachine(t *testing.T) {
	t.Parallel()

	const count = 6

	s, d := newShoot(t), newDriver(settings{grace: settled})
	importers := s.countImporters(t)

	var machines []*machine
	for range count {
		machines = append(machines, s.newPoolMachine(t, "blue", "zone-a", `{"disablePreAllocatedDataVolumes":true}`))
	}

	createAll(t, d, machines)
	imports, clones := s.awaitDisks(t, count)
	t.Logf("%d machines with disablePreAllocatedDataVolumes: %d imports, by %d importer pods; %d clones", count, imports, importers(), clones)
	require.Equal(t, count, imports)
	require.Equal(t, count, importers())
	require.Zero(t, clones)

	removeAll(t, d, machines)
	s.requireNothingLeft(t)
}

// TestMachinesAtOnceMakeOneImage makes sixteen. The soak makes fifty.
func TestMachinesAtOnceMakeOneImage(t *testing.T) {
	t.Parallel()
	requireOneImageOfTwoProcesses(t, 16)
}

// requireOneImageOfTwoProcesses has two processes make machines at once, which know nothing of each other.
func requireOneImageOfTwoProcesses(t *testing.T, count int) {
	t.Helper()

	c := &counter{}
	s := newShoot(t)
	drivers := []driver.Driver{newDriver(settings{grace: settled, wrap: c.wrapDataVolumes}), newDriver(settings{grace: settled, wrap: c.wrapDataVolumes})}

	var machines []*machine
	for range count {
		machines = append(machines, s.newMachine("zone-a", importedRoot))
	}

	require.NoError(t, each(machines, func(i int, m *machine) error {
		_, err := m.create(t.Context(), drivers[i%len(drivers)])

		return err
	}))

	reads, writes, _ := c.take()
	t.Logf("%d machines at once, by two processes: %d attempts to create the image, %d looks at it", count, writes, reads)
	require.Equal(t, 2, writes, "one per process")
	require.Equal(t, 1, reads, "by the process that came second")

	imports, clones := s.awaitDisks(t, count)
	require.Equal(t, 1, imports)
	require.Equal(t, count, clones)

	removeAll(t, drivers[0], machines)
	s.requireNothingLeft(t)
}

// TestGoldenImageOnEachStorageClass takes a machine in each zone through its life.
func TestGoldenImageOnEachStorageClass(t *testing.T) {
	t.Parallel()

	for _, class := range []string{"wait", "immediate", "copy"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()

			s, d := newShoot(t), newDriver(settings{grace: settled})

			for _, zone := range []string{"zone-a", "zone-b"} {
				m := s.newMachine(zone, rootOf(class))
				_, err := m.create(t.Context(), d)
				require.NoError(t, err)
				m.awaitScheduled(t, d)
				s.requireInZone(t, m.name(), zone)
				require.NoError(t, m.remove(t.Context(), d))
			}

			require.Len(t, s.images(t), 1)
			s.requireNothingLeft(t)
		})
	}
}

func rootOf(storageClass string) string {
	return fmt.Sprintf(`{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
		"storage":{"storageClassName":%q,"resources":{"requests":{"storage":"1Gi"}}}}`, storageClass)
}

// TestShootsDoNotShareGoldenImages puts two shoots, and objects of strangers, into one namespace.
func TestShootsDoNotShareGoldenImages(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	d := newDriver(settings{grace: settled})
	mine, theirs := s.newMachine("zone-a", importedRoot), s.newMachine("zone-a", importedRoot)
	theirs.class.ProviderSpec.Raw = []byte(replace(string(theirs.class.ProviderSpec.Raw), s.Namespace, s.Namespace+"-b"))

	for _, m := range []*machine{mine, theirs} {
		_, err := m.create(t.Context(), d)
		require.NoError(t, err)
		m.awaitScheduled(t, d)
	}

	require.Len(t, s.images(t), 2)
	s.requireBehindLoadBalancers(t, s.Namespace, mine.name())
	s.requireBehindLoadBalancers(t, s.Namespace+"-b", theirs.name())

	// A stranger's volume, with the labels of an image that it is not.
	stranger := s.rendered(t, mine)
	stranger.Name, stranger.Annotations = "stranger", nil
	_, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), stranger, metav1.CreateOptions{})
	require.NoError(t, err)

	mine.deleteClass()
	require.NoError(t, mine.remove(t.Context(), d))

	left := s.images(t)
	require.NotContains(t, left, s.rendered(t, mine).Name)
	require.Contains(t, left, s.rendered(t, theirs).Name)
	require.Contains(t, left, "stranger")

	require.NoError(t, theirs.remove(t.Context(), d))
	s.deleteImages(t, s.Namespace+"-b")
	s.requireNothingLeft(t, "DataVolume stranger", "PersistentVolumeClaim stranger")
}

// newPoolMachine returns a machine of a pool and zone, with fields laid over its spec.
func (s *shoot) newPoolMachine(t *testing.T, pool, zone, fields string) *machine {
	t.Helper()

	m := s.newMachine(zone, importedRoot)
	m.class.Name = pool + "-" + zone
	m.machine.Labels["name"] = m.class.Name
	m.machine.Spec.NodeTemplateSpec.Labels = map[string]string{v1alpha1.LabelWorkerPool: pool}
	m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, fields)

	return m
}

// atOnce is how many calls run side by side, as machine-controller-manager's workers do.
const atOnce = 50

// each does something with all machines, and returns what went wrong.
func each(machines []*machine, do func(i int, m *machine) error) error {
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

func createAll(t *testing.T, d driver.Driver, machines []*machine) {
	t.Helper()

	require.NoError(t, each(machines, func(_ int, m *machine) error {
		_, err := m.create(t.Context(), d)

		return err
	}))
}

func removeAll(t *testing.T, d driver.Driver, machines []*machine) {
	t.Helper()
	require.NoError(t, each(machines, func(_ int, m *machine) error { return m.remove(t.Context(), d) }))
}

// awaitDisks waits until that many root volumes are complete, and returns how many DataVolumes were imported, and how many cloned.
func (s *shoot) awaitDisks(t *testing.T, count int) (imports, clones int) {
	t.Helper()

	eventually(t, "all root volumes are complete", func(ctx context.Context) (bool, error) {
		list, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		disks := 0
		imports, clones = 0, 0

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

// countImporters watches the provider namespace from now on, and returns how many importer pods there were.
func (s *shoot) countImporters(t *testing.T) func() int {
	t.Helper()

	importers, err := s.kube.CoreV1().Pods(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "cdi.kubevirt.io=importer"})
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

// images returns the UIDs of all DataVolumes with the label of a golden image that belong to no machine, by their names.
func (s *shoot) images(t *testing.T) map[string]types.UID {
	t.Helper()

	found, err := s.findImages(t.Context())
	require.NoError(t, err)

	return found
}

func (s *shoot) findImages(ctx context.Context) (map[string]types.UID, error) {
	list, err := s.cdi.CdiV1beta1().DataVolumes(s.ProviderNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.LabelGoldenImage + ",!" + render.LabelMachine,
	})
	if err != nil {
		return nil, err
	}

	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}

	return found, nil
}

// rendered returns the image that a machine is cloned from.
func (s *shoot) rendered(t *testing.T, m *machine) *cdiv1beta1.DataVolume {
	t.Helper()

	image, err := m.image(t).DataVolume(s.ProviderNamespace)
	require.NoError(t, err)

	return image
}

// deleteClass has the machine's MachineClass be deleted, as the next requests tell.
func (m *machine) deleteClass() {
	m.class = m.class.DeepCopy()
	m.class.DeletionTimestamp = new(metav1.Now())
}

// image is the source of a machine's golden image.
func (m *machine) image(t *testing.T) goldenimage.Source {
	t.Helper()

	spec, errs := v1alpha1.Decode(m.class.ProviderSpec.Raw, field.NewPath("providerSpec"))
	require.Empty(t, errs)

	return goldenimage.Source{Spec: spec}
}

// importFor sets how long imports take.
func (s *shoot) importFor(t *testing.T, latency time.Duration) {
	t.Helper()
	s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportLatencyAnnotation: latency.String()}})
}

// failImports lets imports end with this message; empty: no more.
func (s *shoot) failImports(t *testing.T, message string) {
	t.Helper()

	var value any
	if message != "" {
		value = message
	}

	s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportFaultAnnotation: value}})
}
