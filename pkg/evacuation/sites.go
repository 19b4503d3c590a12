package evacuation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// unsyncedPeriod is the requeue delay for a site whose list of machines is not complete yet.
	unsyncedPeriod = time.Second
	// idlePeriod is the interval at which the controller checks
	// whether any class still points to a site.
	idlePeriod = 10 * time.Minute
)

// site is a set of machines that is watched with one kubeconfig.
type site struct {
	kubeconfig  []byte
	stop        context.CancelFunc
	evacuations spi.Evacuations
	// stories holds the reports of ongoing evacuations, by the UID of the instance.
	stories map[types.UID]*story
}

// look ensures that a site is watched with its current credentials, or stops the watch, and
// performs the next steps there. It returns the requeue delay in case nothing changes before.
func (c *Controller) look(ctx context.Context, name siteName) (time.Duration, error) {
	s, err := c.watched(ctx, name)
	if err != nil || s == nil {
		return 0, err
	}

	list, complete := s.evacuations.List()
	if !complete {
		return unsyncedPeriod, nil
	}

	if err := errors.Join(c.evacuate(ctx, s, list), s.evacuations.Tidy(ctx)); err != nil {
		return 0, err
	}

	if len(list) == 0 {
		return idlePeriod, nil
	}

	return c.options.Period, nil
}

// watched returns the site, or nil if no class points to it any more.
func (c *Controller) watched(ctx context.Context, name siteName) (*site, error) {
	kubeconfig, have := c.classes.kubeconfig(name), c.sites[name]

	switch {
	case have != nil && bytes.Equal(have.kubeconfig, kubeconfig):
		return have, nil
	case kubeconfig == nil:
		c.leave(ctx, name)

		return nil, nil //nolint:nilnil // A site without a class is not an error.
	}

	watching, stop := context.WithCancel(ctx)

	evacuations, err := c.options.Evacuator.WatchEvacuations(watching,
		&spi.WatchEvacuationsInput{Kubeconfig: kubeconfig, Identity: name.identity}, func() { c.queue.Add(name) })
	if err != nil {
		stop()

		return nil, fmt.Errorf("watch machines at %s: %w", name.place, err)
	}

	stories := map[types.UID]*story{}

	if have != nil { // Credentials were replaced: ongoing evacuations continue.
		have.stop()

		stories = have.stories
		for _, known := range stories {
			known.refused = time.Time{} // The new ones may have the permission.
		}
	}

	klog.FromContext(ctx).Info("Watching for machines that are to leave their provider nodes", "place", name.place,
		"cluster", name.identity.Cluster)

	c.sites[name] = &site{kubeconfig: kubeconfig, stop: stop, evacuations: evacuations, stories: stories}

	return c.sites[name], nil
}

func (c *Controller) leave(ctx context.Context, name siteName) {
	if have := c.sites[name]; have != nil {
		have.stop()
		delete(c.sites, name)
		klog.FromContext(ctx).Info("No MachineClass leads there any more: watching no longer", "place", name.place)
	}
}
