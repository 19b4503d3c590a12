package machineclass_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const orphanPeriod = 15 * time.Minute

// asked is a process that decides by requests alone, with a machine controller that asks it.
type asked struct {
	*world

	requests *machineclass.Requests
	clock    *clocktesting.FakePassiveClock
	secret   *corev1.Secret
}

func newAsked(t *testing.T, there ...string) *asked {
	t.Helper()

	a := &asked{
		world:  &world{t: t, images: newImages()},
		clock:  clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		secret: &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("k")}},
	}
	for _, image := range there {
		a.images.there["k c "+image] = true
	}

	a.requests = machineclass.NewRequests(machineclass.RequestsOptions{
		Images: a.images, Allowed: validation.Options{Template: validation.TemplateSafe}, OrphanPeriod: orphanPeriod, Clock: a.clock,
	})

	return a
}

// list asks for the machines of classes.
func (a *asked) list(classes ...*v1alpha1.MachineClass) {
	for _, class := range classes {
		a.requests.Seen(class, a.secret)
		a.requests.Sweep(a.t.Context(), class, a.secret)
	}
}

// pass lists the machines of classes once in each of a number of orphan periods.
func (a *asked) pass(periods int, classes ...*v1alpha1.MachineClass) {
	for range periods {
		a.after(orphanPeriod)
		a.list(classes...)
	}
}

func (a *asked) after(d time.Duration) {
	a.clock.SetTime(a.clock.Now().Add(d))
}

// TestRequests decides by requests alone.
func TestRequests(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b", "unknown")
	one, two, three := a.class("one", "a", "s"), a.class("two", "a", "s"), a.class("three", "b", "s")
	a.list(one, two, three)
	a.pass(1, one, two, three)

	a.list(a.terminated(one))
	a.requireImages("two refers to it", "k c a", "k c b", "k c unknown")

	a.images.errors["k"] = spi.ErrUnavailable
	a.list(a.terminated(two))
	delete(a.images.errors, "k")
	a.list(a.terminated(two))
	a.requireImages("another class may refer to what nobody told of", "k c b", "k c unknown")

	three.ProviderSpec.Raw = []byte(`{}`)
	a.list(a.terminated(three))
	three.ProviderSpec.Raw = []byte(`{"x":1,"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}`)
	a.list(a.terminated(three))
	a.requireImages("nobody can tell its image", "k c b", "k c unknown")
}

// TestRequestsOfTheLastClasses say of all classes that are known that they are being deleted, and nothing is asked for afterwards.
func TestRequestsOfTheLastClasses(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b")
	one, two, empty := a.class("one", "a", "s"), a.class("two", "b", "s"), a.class("empty", "a", "s")
	a.list(one, two, empty)
	a.pass(1, one, two, empty)
	a.list(a.terminated(two), a.terminated(empty))
	a.requireImages("one has machines", "k c a")

	a.images.inUse["k c a"] = true
	a.list(a.terminated(one))
	a.requireImages("its last machine was just cloned", "k c a")

	delete(a.images.inUse, "k c a")
	a.images.lived = map[string]bool{"k c a": true}
	a.list(a.terminated(empty))
	a.requireImages("a class that vanishes says no more, and its machines live on", "k c a")

	clear(a.images.lived)
	a.list(a.terminated(empty))
	a.requireImages("it is said again of any of them")
}

// TestRequestsOfARollingUpdate carry the old class no more once it is being deleted.
func TestRequestsOfARollingUpdate(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b", "d")
	old, same, renewed := a.class("old", "a", "s"), a.class("same", "d", "s"), a.class("new", "b", "s")
	a.list(old, same)
	a.pass(1, old, same, renewed)
	a.pass(4, same, renewed)
	a.requireImages("a request may have been lost", "k c a", "k c b", "k c d")

	a.images.inUse["k c a"] = true
	a.pass(1, same, renewed)
	a.requireImages("a machine is being cloned from it", "k c a", "k c b", "k c d")

	delete(a.images.inUse, "k c a")
	a.pass(1, same, renewed)
	a.requireImages("nobody asks for its machines any more", "k c b", "k c d")

	a.images.called()
	a.pass(10, same, renewed)
	require.Empty(t, a.images.called(), "there is nothing to look for")
}

// TestRequestsAfterABreak come after the machine controller was down, or asked another replica.
func TestRequestsAfterABreak(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b")
	one, two := a.class("one", "a", "s"), a.class("two", "b", "s")
	a.list(one, two)
	a.pass(2, one, two)
	a.after(24 * time.Hour)
	a.list(one)
	a.requireImages("nobody has asked for the machines of two yet", "k c a", "k c b")

	a.pass(4, one)
	a.requireImages("it may still be asked for", "k c a", "k c b")

	a.pass(1, one)
	a.requireImages("it has gone meanwhile", "k c a")
}

// TestRequestsOfAHibernatedShoot come when it is deleted, after a long break: all classes that were known before are being deleted.
func TestRequestsOfAHibernatedShoot(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b")
	one, two := a.class("one", "a", "s"), a.class("two", "b", "s")
	a.list(one, two)
	a.pass(2, one, two)
	a.after(24 * time.Hour)
	a.list(a.terminated(one))
	a.requireImages("two may live", "k c a", "k c b")

	a.list(a.terminated(two))
	a.requireImages("nothing lives any more")
}

// TestRequestsOfASlowMachineController come half as often as they should, and its passes take a while: that is no break.
func TestRequestsOfASlowMachineController(t *testing.T) {
	t.Parallel()

	const took = 2 * time.Minute

	a := newAsked(t, "a", "b")
	one, two := a.class("one", "a", "s"), a.class("two", "b", "s")

	round := func(classes ...*v1alpha1.MachineClass) {
		a.after(2 * orphanPeriod)
		a.list(classes[:1]...)
		a.after(took)
		a.list(classes[1:]...)
	}

	for range 5 {
		round(one, two)
		round(two, one)
	}

	a.requireImages("they are asked for in each pass", "k c a", "k c b")

	for range 3 {
		round(one)
	}

	a.requireImages("nobody asks for the machines of two any more", "k c a")
}

// TestRequestsAfterAStart are for a class that is being deleted while another, that refers to the same image, is not known yet.
func TestRequestsAfterAStart(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a", "b")
	one, two, three := a.class("one", "a", "s"), a.class("two", "a", "s"), a.class("three", "b", "s")
	a.list(a.terminated(one), a.terminated(three))
	a.requireImages("not every class is known", "k c a", "k c b")

	a.pass(1, two)
	a.requireImages("all are known, and those that went before are remembered", "k c a")
}

// TestRequestsForgetClasses has more classes come than any machine controller has.
func TestRequestsForgetClasses(t *testing.T) {
	t.Parallel()

	a := newAsked(t, "a")
	for i := range 2500 {
		class := a.class("class", "a", "s")
		class.Name += strconv.Itoa(i)
		a.requests.Seen(class, a.secret)
	}

	last := a.class("last", "b", "s")
	a.pass(5, last)
	a.requireImages("")
	require.Equal(t, 1999, a.images.dead)
}
