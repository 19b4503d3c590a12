// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows a Shoot that becomes virtual machines with Ready Nodes, on real control planes
// on this machine: `make demo-shoot`.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
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
	shoot *seed.Botanist
	begun time.Time
	spent []duration
}

// chapter is a part of the demonstration.
type chapter struct {
	title string
	play  func(*demo, context.Context) error
}

func chapters() []chapter {
	return []chapter{
		{"Check the requirements", (*demo).checkRequirements},
		{"Build and start: a garden, a seed, a provider cluster with KubeVirt and CDI, the extension", (*demo).start},
		{"The garden: a CloudProfile of the operator, a project with credentials for the provider cluster", (*demo).prepare},
		{"A Shoot that the admission rejects", (*demo).refuse},
		{"The Shoot of the 2020 user guide, on the pod network: two workers, three networks, a data volume", (*demo).create},
		{"In the shoot: a Service of type LoadBalancer, and the storage classes for pods", (*demo).serve},
		{"A drain of a provider node, under a PodDisruptionBudget: its machine is replaced; then the remedy, which replaces all", (*demo).replace},
		{"The same drain: live migration", (*demo).migrate},
		{"The Shoot is deleted: the Worker first, then the ControlPlane and the Infrastructure", (*demo).remove},
	}
}

func run(ctx context.Context, out *screen.Screen) (failed error) {
	d := &demo{out: out, begun: time.Now()}

	defer func() { failed = errors.Join(failed, d.stop(ctx, failed != nil && ctx.Err() == nil)) }()

	all := chapters()
	for i, c := range all {
		out.Line("\n=== %d/%d  %s", i+1, len(all), c.title)

		begun := time.Now()
		if err := c.play(d, ctx); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}

		d.spent = append(d.spent, duration{c.title, time.Since(begun)})
	}

	d.summarize()

	return nil
}

// start builds and starts everything.
func (d *demo) start(ctx context.Context) (err error) {
	d.seed, err = seed.Start(ctx, &screen.Lines{Screen: d.out})

	return err
}

// stop ends all processes, although ctx may have ended.
func (d *demo) stop(ctx context.Context, keepLogs bool) error {
	const atMost = time.Minute

	if d.seed == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()

	failed := d.seed.Stop(ctx, keepLogs)
	if failed != nil || keepLogs {
		d.out.Line("Logs: %s", d.seed.Folder)
	}

	return failed
}

// prepare does what an operator and the administrator of a project do.
func (d *demo) prepare(ctx context.Context) error {
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

// refuse applies a Shoot with a mistake.
func (d *demo) refuse(ctx context.Context) error {
	manifest, err := d.seed.Manifest(seed.ExampleShoot)
	if err != nil {
		return err
	}

	d.out.Line("The guest has more memory than its machine type. This command is meant to fail: kubectl ends with exit status 1.")
	d.out.Line("$ sed 's/guest: .*/guest: 16Gi/' extension/example/%s | kubectl apply -f -", seed.ExampleShoot)

	refusal := d.seed.Apply(ctx, bytes.Replace(manifest, []byte(`guest: "1Gi"`), []byte("guest: 16Gi"), 1))
	if refusal == nil {
		return errors.New("the Shoot with a guest that is larger than its machine type was not refused")
	}

	d.out.Line("%s", refusal)
	d.out.Line("As expected, the admission has rejected the Shoot.")

	return nil
}

// create creates the Shoot of the 2020 user guide.
func (d *demo) create(ctx context.Context) error {
	manifest, err := d.seed.Manifest(seed.ExampleShoot)
	if err != nil {
		return err
	}

	d.out.Line("The pod network is the default of most provider clusters. In the guide, the machine is on a network of the tenant.")
	d.out.Line("$ sed '%s' extension/example/%s | kubectl apply -f -", script, seed.ExampleShoot)

	if err := d.seed.Apply(ctx, adapt(manifest)); err != nil {
		return err
	}

	d.out.Line("gardener-apiserver has stored the Shoot. Gardener's deployers write Infrastructure, ControlPlane, machine-controller-manager and Worker into")
	d.out.Line("the seed. The extension creates the network, cloud-controller-manager and the CSI driver, whose programs run, the MachineClass and the")
	d.out.Line("MachineDeployment; its webhook adds the driver to machine-controller-manager, which creates the machines.")

	if d.shoot, err = d.seed.Adopt(ctx, client.ObjectKey{Namespace: "garden-dev", Name: "johndoe-kubevirt"}); err != nil {
		return err
	}

	d.shoot.HasControlPlane = true
	d.shoot.Repeats = func(err error) { d.out.Line("%v\ngardenlet repeats the operation.", err) }

	return d.watch(ctx, d.shoot.Reconcile)
}

// script makes the pod network the default network of the guide's Shoot, and adds a worker.
const script = "/default: true/d; s|nodes: .*|nodes: 10.244.0.0/16|; s/minimum: 1/minimum: 2/"

// adapt does what sed does with script.
func adapt(manifest []byte) []byte {
	for _, edit := range [][2]string{
		{"            default: true\n", ""},
		{"nodes: 10.100.0.0/16", "nodes: 10.244.0.0/16"},
		{"minimum: 1", "minimum: 2"},
	} {
		manifest = bytes.Replace(manifest, []byte(edit[0]), []byte(edit[1]), 1)
	}

	return manifest
}

// roll changes the binding of the pod network to one that migrates, and the image version, which replaces all machines.
func (d *demo) roll(ctx context.Context) error {
	const version = "20.4.20210401"

	config := &api.InfrastructureConfig{}
	if errs := api.Decode(d.shoot.Object.Spec.Provider.InfrastructureConfig, nil, config); len(errs) > 0 {
		return errs.ToAggregate()
	}

	config.Networks.Pod = &api.PodNetwork{Binding: bindingFor(d.seed.KubeVirtVersion())}

	infra, err := json.Marshal(config)
	if err != nil {
		return err
	}

	d.out.Line("The pods have moved. While machine-controller-manager deletes their machine, the owner follows the remedy, and sets a new image version.")
	d.out.Line("networks.pod.binding of the InfrastructureConfig: %s, for which Calico must use VXLAN. Image version: %s.", config.Networks.Pod.Binding, version)
	d.out.Line("maxSurge: 3, which counts the machine that is being deleted: both others are replaced at once, by default one after the other.")

	if err := d.shoot.Change(ctx, func(s *gardencorev1beta1.Shoot) {
		w := &s.Spec.Provider.Workers[0]
		w.Machine.Image.Version = ptr.To(version)
		w.MaxSurge = ptr.To(intstr.FromInt32(3))
		s.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: infra}
		s.Spec.Networking.ProviderConfig = &runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"calico.networking.extensions.gardener.cloud/v1alpha1","kind":"NetworkConfig","vxlan":{"enabled":true}}`),
		}
	}); err != nil {
		return err
	}

	if err := d.shoot.Reconcile(ctx); err != nil {
		return err
	}

	table, err := d.table(ctx)
	d.out.Line("%s", table)

	return err
}

// bindingFor returns a binding that migrates and that a version of KubeVirt has.
func bindingFor(version string) string {
	if v, err := semver.NewVersion(version); err == nil && v.LessThan(semver.New(1, 9, 0, "", "")) {
		return api.BindingMasquerade
	}

	return api.BindingPasst
}

func (d *demo) remove(ctx context.Context) error {
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
