package machineclass_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

// elsewhere is a driver that notes whose machines it lists, as "class kubeconfig".
type elsewhere struct {
	driver.Driver

	mu     sync.Mutex
	listed []string
	err    error
	hold   chan struct{} // calls wait until it is closed
}

func (e *elsewhere) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	e.mu.Lock()
	e.listed = append(e.listed, req.MachineClass.Name+" "+string(req.Secret.Data["kubeconfig"]))
	hold, err := e.hold, e.err
	e.mu.Unlock()

	if req.MachineClass.DeletionTimestamp == nil {
		return nil, status.Error(codes.Internal, "the class is not being deleted")
	}

	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, status.Error(codes.Unavailable, ctx.Err().Error())
		}
	}

	return &driver.ListMachinesResponse{}, err
}

// fail has all calls end with an error from now on; nil: with none.
func (e *elsewhere) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.err = err
}

// calls returns whose machines were listed since it was last asked.
func (e *elsewhere) calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()

	listed := e.listed
	e.listed = nil

	return listed
}

// reported is a world with a Reporter in the Tracker's place.
type reported struct {
	*world

	reporter *machineclass.Reporter
	driver   *elsewhere
}

func inReportedWorld(t *testing.T, test func(t *testing.T, w *reported)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &reported{world: newWorld(t), driver: &elsewhere{}}
		w.reporter = machineclass.NewReporter(machineclass.ReporterOptions{ControlCluster: w.control(), Driver: w.driver})

		test(t, w)
	})
}

// TestReportOfAClass has a class go that no finalizer kept, with its Secret.
func TestReportOfAClass(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "b", "s")
		w.lead(secret, one, two)
		pass(time.Hour)
		require.Empty(t, w.driver.calls(), "requests say that they live")

		w.removeSecret()
		one.Labels = map[string]string{"changed": "after its Secret had gone"}
		w.update(one)
		w.terminate(two)
		require.Empty(t, w.driver.calls(), "as long as it has machines, requests say that it is being deleted")

		w.remove(one, two)
		require.ElementsMatch(t, []string{"one k", "two k"}, w.driver.calls())

		pass(time.Hour)
		require.ElementsMatch(t, []string{"one k", "two k", "one k", "two k", "one k", "two k"}, w.driver.calls(),
			"it is said again, but not for ever")
	})
}

// TestReportsAreTheLeaders has a process know classes that does not lead, and be elected then.
func TestReportsAreTheLeaders(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one, two, three := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "b", "s"), w.class("three", "c", "s")
		w.create(one, two, three)
		w.runs(w.reporter.Run)
		w.remove(one, two)
		w.create(two)
		pass(time.Hour)
		require.Empty(t, w.driver.calls(), "nobody knows whether this process leads")

		w.reporter.Seen(three, secret)
		synctest.Wait()
		require.Equal(t, []string{"one k"}, w.driver.calls(), "it leads, and two is there again")
	})
}

// TestReportsWithoutALeader have all classes of a hibernated shoot go before the process is elected.
func TestReportsWithoutALeader(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		w.secret("s", "k")

		one, two := w.class("one", "a", "s"), w.class("two", "a", "s")
		w.create(one, two)
		w.runs(w.reporter.Run)
		w.remove(one)
		require.Empty(t, w.driver.calls(), "the leader will be asked for the machines of the other class")

		w.remove(two)
		require.ElementsMatch(t, []string{"one k", "two k"}, w.driver.calls(), "no request can come any more")
	})
}

// TestReportToADriverThatIsDown is sent until it arrives, for a day at the most.
func TestReportToADriverThatIsDown(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "a", "s")
		w.lead(secret, one, two)
		w.driver.fail(status.Error(codes.Unavailable, "the driver does not run"))
		w.remove(one)
		pass(23 * time.Hour)
		require.LessOrEqual(t, len(w.driver.calls()), 23*120+6, "it is asked every 30 s at the most")

		w.driver.fail(nil)
		pass(time.Hour)
		require.Len(t, w.driver.calls(), 4, "it arrives, and is repeated")

		w.driver.fail(status.Error(codes.Unavailable, "the driver does not run"))
		w.remove(two)
		pass(25 * time.Hour)
		w.driver.calls()
		w.driver.fail(nil)
		pass(time.Hour)
		require.Empty(t, w.driver.calls(), "it is given up")
	})
}

// TestReportWithoutAKubeconfig is for a driver that holds the kubeconfigs, or else can do nothing, however often it is told.
func TestReportWithoutAKubeconfig(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one, two := w.secret("s", ""), w.class("one", "a", "s"), w.class("two", "a", "none")
		w.lead(secret, one, two)
		w.remove(one)
		require.Equal(t, []string{"one "}, w.driver.calls())

		w.driver.fail(status.Error(codes.InvalidArgument, "the Secret lacks the key kubeconfig"))
		w.remove(two)
		require.Equal(t, []string{"two "}, w.driver.calls())

		w.driver.fail(nil)
		pass(time.Hour)
		require.Equal(t, []string{"one ", "one ", "one "}, w.driver.calls())
	})
}

// TestReportWithNewCredentials has a request bring a kubeconfig that the Reporter does not know.
func TestReportWithNewCredentials(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one := w.secret("s", "old"), w.class("one", "a", "s")
		w.lead(secret, one)
		w.reporter.Seen(one, w.secret("s", "new"))
		synctest.Wait()
		w.remove(one)
		require.Equal(t, []string{"one new"}, w.driver.calls())
	})
}

// TestReportOfAClassCreatedAnew has the watch show one change, in which the class has become another one.
func TestReportOfAClassCreatedAnew(t *testing.T) {
	t.Parallel()
	inReportedWorld(t, func(t *testing.T, w *reported) {
		secret, one := w.secret("s", "k"), w.class("one", "a", "s")
		w.lead(secret, one)

		one.UID, one.SecretRef.Name = types.UID("anew"), "none"
		w.update(one)
		w.remove(one)
		require.Equal(t, []string{"one "}, w.driver.calls(), "it has nothing of its predecessor")
	})
}

// TestReporterStops ends a Reporter between two reports, and during one.
func TestReporterStops(t *testing.T) {
	t.Parallel()

	t.Run("LastChance", func(t *testing.T) {
		t.Parallel()
		inReportedWorld(t, func(t *testing.T, w *reported) {
			secret, one, two := w.secret("s", "k"), w.class("one", "a", "s"), w.class("two", "a", "s")
			w.lead(secret, one, two)
			w.remove(one)
			w.driver.fail(status.Error(codes.Unavailable, "the driver does not run"))
			w.remove(two)
			pass(10 * time.Second)
			w.driver.fail(nil)
			w.driver.calls()
			w.stopReporter()
			require.ElementsMatch(t, []string{"one k", "two k"}, w.driver.calls(), "the next process knows neither")
		})
	})

	t.Run("SlowDriver", func(t *testing.T) {
		t.Parallel()
		inReportedWorld(t, func(t *testing.T, w *reported) {
			secret, one := w.secret("s", "k"), w.class("one", "a", "s")
			w.driver.hold = make(chan struct{})
			w.lead(secret, one)
			w.remove(one)

			started := time.Now()
			w.stopReporter()
			require.Equal(t, stopTime, time.Since(started), "it gets the time that calls get, and no more")
		})
	})
}

// lead runs the Reporter beside classes, and has machine-controller-manager ask for the machines of the first one.
func (w *reported) lead(secret *corev1.Secret, classes ...*v1alpha1.MachineClass) {
	w.t.Helper()
	w.create(classes...)
	w.runs(w.reporter.Run)
	w.reporter.Seen(classes[0], secret)
	synctest.Wait()
}

func (w *reported) stopReporter() {
	ctx, cancel := context.WithTimeout(w.t.Context(), stopTime)
	defer cancel()

	w.reporter.Stop(ctx)
}
