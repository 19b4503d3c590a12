// Command demo shows a Shoot that becomes virtual machines with Ready Nodes, on real control planes
// on this machine: `make demo-shoot`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/demo/screen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second ctrl-C ends the program at once.

	err := run(ctx, screen.New(os.Stdout))

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is a running demonstration.
type demo struct {
	out   *screen.Screen
	seed  *seed.Seed
	shoot *seed.Shoot
}

func run(ctx context.Context, out *screen.Screen) (failed error) {
	begun := time.Now()
	d := &demo{out: out}

	d.title(1, "Build and start: a seed, a provider cluster with KubeVirt and CDI, the extension")

	var err error
	if d.seed, err = seed.Start(ctx, &screen.Lines{Screen: out}); err != nil {
		return err
	}

	defer func() {
		const atMost = time.Minute

		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()

		failed = errors.Join(failed, d.seed.Stop(stopping, failed != nil && ctx.Err() == nil))
		if failed != nil {
			out.Line("Logs: %s", d.seed.Folder)
		}
	}()

	for _, chapter := range []func(context.Context) error{d.create, d.scale, d.roll, d.remove} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}

	out.Line("\nDone in %s. Nothing of the shoot is left in the seed and in the provider cluster.", screen.Clock(time.Since(begun)))

	return nil
}

const chapters = 5

func (d *demo) title(number int, text string) { d.out.Line("\n=== %d/%d  %s", number, chapters, text) }

// create creates the Shoot of the 2020 user guide.
func (d *demo) create(ctx context.Context) error {
	d.title(2, "The Shoot of the 2020 user guide: one worker, two networks, a data volume")

	object, profile := &gardencorev1beta1.Shoot{}, &gardencorev1beta1.CloudProfile{}
	if err := errors.Join(seed.Read("guide.yaml", object), seed.Read("cloudprofile.yaml", profile), d.seed.SharedNetwork(ctx, "net-conf")); err != nil {
		return err
	}

	d.out.Line("Gardener's deployers write Infrastructure, ControlPlane, machine-controller-manager and Worker into the seed. The extension creates the")
	d.out.Line("network, cloud-controller-manager and the CSI driver (their pods are simulated), the MachineClass and the MachineDeployment; its webhook adds")
	d.out.Line("the driver to machine-controller-manager, which creates the machine.")

	var err error
	if d.shoot, err = d.seed.NewShoot(ctx, object, profile, seed.AccountIn(object.Name)); err != nil {
		return err
	}

	d.shoot.HasControlPlane = true

	return d.watch(ctx, d.shoot.Reconcile)
}

func (d *demo) scale(ctx context.Context) error {
	d.title(3, "A second worker: minimum: 2")

	d.shoot.Object.Spec.Provider.Workers[0].Minimum = 2

	return d.watch(ctx, d.shoot.Reconcile)
}

func (d *demo) roll(ctx context.Context) error {
	d.title(4, "A new image version: both machines are replaced, one after the other")

	d.shoot.Object.Spec.Provider.Workers[0].Machine.Image.Version = ptr.To("20.4.20210401")

	return d.watch(ctx, d.shoot.Reconcile)
}

func (d *demo) remove(ctx context.Context) error {
	d.title(5, "The Shoot is deleted: the Worker first, then the ControlPlane and the Infrastructure")

	if err := d.watch(ctx, d.shoot.Delete); err != nil {
		return err
	}

	left, err := d.shoot.Leftovers(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left in the provider cluster: %s", strings.Join(left, ", "))
	}

	return err
}

// watch shows the table of the shoot while an operation runs.
func (d *demo) watch(ctx context.Context, operation func(context.Context) error) error {
	const every = 500 * time.Millisecond

	ended := make(chan error, 1)
	begun := time.Now()

	go func() { ended <- operation(ctx) }()

	for {
		if table, err := d.table(ctx); err == nil {
			d.out.Table(table, table)
		}

		select {
		case err := <-ended:
			d.out.Settle()

			if err == nil {
				d.out.Line("Done after %s.", screen.Clock(time.Since(begun)))
			}

			return err
		case <-time.After(every):
		}
	}
}
