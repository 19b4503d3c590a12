// Command demo shows a Shoot that becomes virtual machines with Ready Nodes, on real control planes
// on this machine: `make demo-shoot`.
package main

import (
	"bytes"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

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

	d.title(1, "Build and start: a garden, a seed, a provider cluster with KubeVirt and CDI, the extension")

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

	for _, chapter := range []func(context.Context) error{d.prepare, d.create, d.serve, d.scale, d.roll, d.remove} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}

	out.Line("\nDone in %s. Nothing of the shoot is left in the garden, in the seed and in the provider cluster.", screen.Clock(time.Since(begun)))

	return nil
}

const chapters = 7

func (d *demo) title(number int, text string) { d.out.Line("\n=== %d/%d  %s", number, chapters, text) }

// prepare does what an operator and the administrator of a project do.
func (d *demo) prepare(ctx context.Context) error {
	d.title(2, "The garden: a CloudProfile of the operator, a project with credentials for the provider cluster")

	if err := d.seed.SharedNetwork(ctx, "net-conf"); err != nil {
		return err
	}

	for _, name := range []string{seed.ExampleProject, seed.ExampleCloudProfile, seed.ExampleSecret, seed.ExampleCredentialsBinding} {
		d.out.Line("$ kubectl apply -f extension/example/%s", name)
	}

	return d.seed.ApplyLandscape(ctx, account())
}

// account is the account of the credentials.
func account() seed.Account { return seed.AccountIn("shoot-machines") }

// create creates the Shoot of the 2020 user guide.
func (d *demo) create(ctx context.Context) error {
	d.title(3, "The Shoot of the 2020 user guide: one worker, two networks, a data volume")

	manifest, err := d.seed.Manifest(seed.ExampleShoot)
	if err != nil {
		return err
	}

	d.out.Line("$ sed 's/guest: .*/guest: 16Gi/' extension/example/%s | kubectl apply -f -", seed.ExampleShoot)

	refusal := d.seed.Apply(ctx, bytes.Replace(manifest, []byte(`guest: "1Gi"`), []byte("guest: 16Gi"), 1))
	if refusal == nil {
		return errors.New("the Shoot with a guest that is larger than its machine type was not refused")
	}

	d.out.Line("%s", refusal)
	d.out.Line("$ kubectl apply -f extension/example/%s", seed.ExampleShoot)

	if err := d.seed.Apply(ctx, manifest); err != nil {
		return err
	}

	d.out.Line("gardener-apiserver has stored the Shoot. Gardener's deployers write Infrastructure, ControlPlane, machine-controller-manager and Worker into")
	d.out.Line("the seed. The extension creates the network, cloud-controller-manager and the CSI driver (their pods are simulated), the MachineClass and the")
	d.out.Line("MachineDeployment; its webhook adds the driver to machine-controller-manager, which creates the machine.")

	if d.shoot, err = d.seed.Adopt(ctx, client.ObjectKey{Namespace: "garden-dev", Name: "johndoe-kubevirt"}); err != nil {
		return err
	}

	d.shoot.HasControlPlane = true

	return d.watch(ctx, d.shoot.Reconcile)
}

func (d *demo) scale(ctx context.Context) error {
	d.title(5, "A second worker: minimum: 2")

	return d.change(ctx, func(w *gardencorev1beta1.Worker) { w.Minimum = 2 })
}

func (d *demo) roll(ctx context.Context) error {
	d.title(6, "A new image version: both machines are replaced, one after the other")

	return d.change(ctx, func(w *gardencorev1beta1.Worker) { w.Machine.Image.Version = ptr.To("20.4.20210401") })
}

// change changes the worker pool in the garden, and waits until the shoot is as it wants.
func (d *demo) change(ctx context.Context, change func(*gardencorev1beta1.Worker)) error {
	if err := d.shoot.Change(ctx, func(s *gardencorev1beta1.Shoot) { change(&s.Spec.Provider.Workers[0]) }); err != nil {
		return err
	}

	return d.watch(ctx, d.shoot.Reconcile)
}

func (d *demo) remove(ctx context.Context) error {
	d.title(7, "The Shoot is deleted: the Worker first, then the ControlPlane and the Infrastructure")

	// gardenlet deletes the Services and volumes of a shoot first.
	if err := d.deleteService(ctx); err != nil {
		return err
	}

	if err := d.shoot.RequestDeletion(ctx); err != nil {
		return err
	}

	if err := d.watch(ctx, d.shoot.Delete); err != nil {
		return err
	}

	left, err := d.shoot.Leftovers(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("left in the provider cluster: %s", strings.Join(left, ", "))
	}

	return errors.Join(err, d.seed.Release(ctx, client.ObjectKeyFromObject(d.shoot.Object)))
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
