// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// The application, its pods, and those that its PodDisruptionBudget requires.
const (
	app       = "web"
	replicas  = 4
	available = 3
)

// settled is the maximum time until a drain has taken effect, on a busy machine.
const settled = 10 * time.Minute

// replace drains a provider node like its administrator, who does not know the shoots. The owner of the shoot, who does not know the
// provider nodes, has a PodDisruptionBudget, and a machine that cannot live-migrate. When its pods have moved, and while
// machine-controller-manager deletes it, which takes half a minute, the owner follows the remedy.
func (d *demo) replace(ctx context.Context) error {
	if err := d.explain(ctx, true); err != nil {
		return err
	}

	return d.observe(ctx, func(seen *observer.Observer, tell teller) error {
		node, machines, err := d.nodeWithMachine(ctx)
		if err != nil {
			return err
		}

		parallel, ctx := errgroup.WithContext(ctx)
		parallel.Go(func() error { return d.drain(ctx, node, tell) })
		parallel.Go(func() error {
			if err := d.awaitMoved(ctx, seen, machines); err != nil {
				return err
			}

			if err := d.conclude(ctx, seen, machines); err != nil {
				return err
			}

			return d.roll(ctx)
		})

		return parallel.Wait()
	})
}

// migrate drains a provider node after the Shoot has followed the remedy.
func (d *demo) migrate(ctx context.Context) error {
	if err := d.explain(ctx, false); err != nil {
		return err
	}

	return d.observe(ctx, func(seen *observer.Observer, tell teller) error {
		node, _, err := d.nodeWithMachine(ctx)
		if err != nil {
			return err
		}

		if err := d.drain(ctx, node, tell); err != nil {
			return err
		}

		if err := d.awaitAvailable(ctx); err != nil {
			return err
		}

		return d.conclude(ctx, seen, 0)
	})
}

// explain shows which pools the Worker reports as not migratable.
func (d *demo) explain(ctx context.Context, expected bool) error {
	w := &extensionsv1alpha1.Worker{}
	if err := d.seed.Client.Get(ctx, client.ObjectKey{Namespace: d.shoot.Namespace, Name: d.shoot.Object.Name}, w); err != nil {
		return err
	}

	status := &api.WorkerStatus{}
	if errs := api.Decode(w.Status.ProviderStatus, nil, status); len(errs) > 0 {
		return errs.ToAggregate()
	}

	for _, pool := range status.NotMigratable {
		d.out.Line("The Worker reports: pool %s cannot live-migrate, because %s.", pool.Name, pool.Reason)
	}

	if reported := len(status.NotMigratable) > 0; reported != expected {
		return fmt.Errorf("the Worker reports that a pool cannot live-migrate: %t, and %t is expected", reported, expected)
	}

	return nil
}

// teller shows an actor and its action.
type teller = func(who, what string)

// observe runs the application, and shows the timeline of the shoot's machines and pods while part runs.
func (d *demo) observe(ctx context.Context, part func(*observer.Observer, teller) error) (failed error) {
	d.out.Line("In the shoot: a ReplicaSet with %d pods on both Nodes, and a PodDisruptionBudget that requires %d of them.", replicas, available)

	if err := d.runApplication(ctx); err != nil {
		return err
	}

	begun := time.Now()
	tell := func(who, what string) { d.out.Line("  %6s  %-8s %s", screen.Clock(time.Since(begun)), who, what) }
	seen := observer.New(observer.Options{Tell: tell, PodsOn: func(node string) ([]corev1.Pod, error) { return d.podsOn(ctx, node) }})

	end, err := d.shoot.Observe(ctx, seen)
	if err != nil {
		return err
	}

	defer func() { failed = errors.Join(failed, end()) }()

	return part(seen, tell)
}

// drain drains a provider node, which may then be used again.
func (d *demo) drain(ctx context.Context, node string, tell teller) error {
	if err := d.kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m"); err != nil {
		return err
	}

	tell("drain", "the provider node is empty")

	return d.kubectl(ctx, "uncordon", node)
}

// awaitMoved waits until as many machines are to be deleted, and all pods of the application are ready on others.
func (d *demo) awaitMoved(ctx context.Context, seen *observer.Observer, machines int) error {
	err := wait.PollUntilContextTimeout(ctx, poll, settled, true, func(ctx context.Context) (bool, error) {
		deleted := seen.Deletions()
		if ready, _ := seen.Ready(app); ready < replicas || len(deleted) < machines {
			return false, nil
		}

		for _, machine := range deleted {
			if pods, err := d.podsOn(ctx, machine); err != nil || len(pods) > 0 {
				return false, err
			}
		}

		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the pods to move: %w", err)
	}

	return nil
}

// awaitAvailable waits until all machines are Running.
func (d *demo) awaitAvailable(ctx context.Context) error {
	machines := &machinev1alpha1.MachineList{}

	err := wait.PollUntilContextTimeout(ctx, poll, settled, true, func(ctx context.Context) (bool, error) {
		err := d.seed.Client.List(ctx, machines, client.InNamespace(d.shoot.Namespace))

		return !slices.ContainsFunc(machines.Items, func(m machinev1alpha1.Machine) bool { return !observer.IsAvailable(&m) }), err
	})
	if err != nil {
		return fmt.Errorf("wait for the machines of the shoot: %w", err)
	}

	return nil
}

// conclude judges the drain, and deletes the application.
func (d *demo) conclude(ctx context.Context, seen *observer.Observer, replaced int) error {
	_, fewest := seen.Ready(app)
	d.out.Line("At any time, at least %d of %d pods were ready.", fewest, replicas)

	return errors.Join(judge(seen, replaced), d.deleteApplication(ctx))
}

// judge returns an error if the drain harmed the shoot, or did not replace as many machines. If it replaces none, no pod ends.
func judge(seen *observer.Observer, replaced int) error {
	if _, fewest := seen.Ready(app); fewest < available {
		return fmt.Errorf("the PodDisruptionBudget requires %d ready pods, and only %d were ready at a time", available, fewest)
	}

	for _, end := range seen.Ends() {
		if end.Killed || replaced == 0 {
			return fmt.Errorf("pod %s on Node %s has ended: %+v", end.Pod, end.Node, end)
		}
	}

	if deleted := seen.Deletions(); len(deleted) != replaced {
		return fmt.Errorf("the drain replaced %d machines, and %d are expected", len(deleted), replaced)
	}

	return nil
}

// application returns the ReplicaSet and its PodDisruptionBudget.
func application() (*appsv1.ReplicaSet, *policyv1.PodDisruptionBudget) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: app}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{observer.AppLabel: app}}
	spread := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector}

	return &appsv1.ReplicaSet{
			ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{
				Replicas: ptr.To(int32(replicas)),
				Selector: selector,
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
					Spec: corev1.PodSpec{
						Containers:                []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}},
						TopologySpreadConstraints: []corev1.TopologySpreadConstraint{spread},
					},
				},
			},
		}, &policyv1.PodDisruptionBudget{
			ObjectMeta: meta,
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: ptr.To(intstr.FromInt32(available))},
		}
}

// runApplication returns when all pods are ready, and one may be evicted.
func (d *demo) runApplication(ctx context.Context) error {
	pods, budget := application()
	for _, object := range []client.Object{pods, budget} {
		if err := d.seed.Target.Create(ctx, object); err != nil {
			return err
		}
	}

	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		err := d.seed.Target.Get(ctx, client.ObjectKeyFromObject(budget), budget)

		return budget.Status.CurrentHealthy == replicas && budget.Status.DisruptionsAllowed == replicas-available, err
	})
	if err != nil {
		return fmt.Errorf("wait for the pods of the application: %w", err)
	}

	return nil
}

func (d *demo) deleteApplication(ctx context.Context) error {
	pods, budget := application()

	return errors.Join(d.seed.Target.Delete(ctx, budget), d.seed.Target.Delete(ctx, pods, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// nodeWithMachine returns the provider node of the first machine, and the number of machines on it.
func (d *demo) nodeWithMachine(ctx context.Context) (node string, machines int, _ error) {
	list := &kubevirtv1.VirtualMachineInstanceList{}
	if err := d.seed.Provider.List(ctx, list, client.InNamespace(d.shoot.ProviderNamespace)); err != nil {
		return "", 0, err
	}

	if len(list.Items) == 0 {
		return "", 0, errors.New("the Shoot has no machine")
	}

	node = list.Items[0].Status.NodeName

	for i := range list.Items {
		if list.Items[i].Status.NodeName == node {
			machines++
		}
	}

	return node, machines, nil
}

// podsOn returns the pods of the application on a Node of the shoot.
func (d *demo) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}

	err := d.seed.Target.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		d.out.Line("list the pods on Node %s: %v", node, err)
	}

	return list.Items, err
}

// kubectl runs a command of the administrator of the provider cluster.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	d.out.Line("$ kubectl %s", strings.Join(args, " "))

	command := exec.CommandContext(ctx, d.seed.Kubectl(), append([]string{"--kubeconfig=" + d.seed.Kubeconfigs().Provider}, args...)...)

	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, output)
	}

	return nil
}
