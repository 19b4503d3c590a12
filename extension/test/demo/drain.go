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

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// The pods of the application, and those that its PodDisruptionBudget requires.
const replicas, available = 4, 3

// drained is what the demonstration has seen of a drain.
type drained struct {
	begun time.Time
	// states are the lines that were shown last, by their subjects: a kind and a name, or a kind alone.
	states map[string]string
	// fewest is the smallest number of ready pods.
	fewest int
}

// drain drains a provider node like its administrator, who does not know the shoots. The machines of this Shoot can live-migrate; others
// would be replaced under the PodDisruptionBudgets of the shoot's owner, who does not know the provider nodes.
func (d *demo) drain(ctx context.Context) error {
	d.out.Line("In the shoot: a ReplicaSet with %d pods on both Nodes, and a PodDisruptionBudget that requires %d of them.", replicas, available)

	if err := d.runApplication(ctx); err != nil {
		return err
	}

	node, err := d.nodeWithMachine(ctx)
	if err != nil {
		return err
	}

	seen := &drained{begun: time.Now(), states: map[string]string{}, fewest: replicas}
	ended := d.startDrain(ctx, node)

	if err := d.observe(ctx, seen, ended); err != nil {
		return err
	}

	if seen.fewest < available {
		return fmt.Errorf("the PodDisruptionBudget requires %d ready pods, and only %d were ready at a time", available, seen.fewest)
	}

	d.out.Line("At any time, at least %d of %d pods were ready.", seen.fewest, replicas)

	return errors.Join(d.kubectl(ctx, "uncordon", node), d.deleteApplication(ctx))
}

// application returns the ReplicaSet and its PodDisruptionBudget.
func application() (*appsv1.ReplicaSet, *policyv1.PodDisruptionBudget) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": meta.Name}}
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

// nodeWithMachine returns the provider node of the first machine.
func (d *demo) nodeWithMachine(ctx context.Context) (string, error) {
	instances, err := d.instances(ctx)
	if err != nil {
		return "", err
	}

	if len(instances) == 0 {
		return "", errors.New("the Shoot has no machine")
	}

	return instances[0].Status.NodeName, nil
}

func (d *demo) instances(ctx context.Context) ([]kubevirtv1.VirtualMachineInstance, error) {
	list := &kubevirtv1.VirtualMachineInstanceList{}
	err := d.seed.Provider.List(ctx, list, client.InNamespace(d.shoot.ProviderNamespace))

	return list.Items, err
}

// startDrain begins the drain, and returns the channel of its end.
func (d *demo) startDrain(ctx context.Context, node string) <-chan error {
	ended := make(chan error, 1)

	go func() {
		ended <- d.kubectl(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
	}()

	return ended
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

// observe shows what changes, until the drain has ended and all machines of the Shoot are ready.
func (d *demo) observe(ctx context.Context, seen *drained, ended <-chan error) error {
	done := false

	return wait.PollUntilContextTimeout(ctx, poll, 15*time.Minute, true, func(ctx context.Context) (bool, error) { //nolint:mnd // on a busy machine
		select {
		case err := <-ended:
			if err != nil {
				return false, err
			}

			done = true

			d.tell(seen, "drain", "the provider node is empty")
		default:
		}

		ready, err := d.look(ctx, seen)

		return done && ready, err
	})
}

// look shows what has changed, and reports whether all machines and pods are ready.
func (d *demo) look(ctx context.Context, seen *drained) (bool, error) {
	if err := d.lookAtEvents(ctx, seen); err != nil {
		return false, err
	}

	machines, err := d.lookAtMachines(ctx, seen)
	if err != nil {
		return false, err
	}

	pods, err := d.lookAtPods(ctx, seen)

	return machines && pods, err
}

// tell shows a line of the timeline, unless the subject's last line was the same.
func (d *demo) tell(seen *drained, subject, state string) {
	if seen.states[subject] == state {
		return
	}

	seen.states[subject] = state
	kind, _, _ := strings.Cut(subject, "/")

	d.out.Line("  %6s  %-8s %s", screen.Clock(time.Since(seen.begun)), kind, state)
}

// lookAtEvents shows the Events of the evacuation.
func (d *demo) lookAtEvents(ctx context.Context, seen *drained) error {
	list := &corev1.EventList{}
	if err := d.seed.Client.List(ctx, list, client.InNamespace(d.shoot.Namespace)); err != nil {
		return err
	}

	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })

	for _, e := range list.Items {
		if strings.HasPrefix(e.Reason, "Evacuation") {
			d.tell(seen, "driver/"+string(e.UID), e.InvolvedObject.Name+" "+e.Reason+": "+e.Message)
		}
	}

	return nil
}

// lookAtMachines shows the phases of Machines and the provider nodes of their guests, and reports whether all are Running.
func (d *demo) lookAtMachines(ctx context.Context, seen *drained) (bool, error) {
	machines := &machinev1alpha1.MachineList{}
	if err := d.seed.Client.List(ctx, machines, client.InNamespace(d.shoot.Namespace)); err != nil {
		return false, err
	}

	instances, err := d.instances(ctx)
	if err != nil {
		return false, err
	}

	nodes := map[string]string{}
	for i := range instances {
		nodes[instances[i].Name] = instances[i].Status.NodeName
	}

	ready := true

	for _, m := range machines.Items {
		phase := m.Status.CurrentStatus.Phase
		ready = ready && phase == machinev1alpha1.MachineRunning

		d.tell(seen, "MCM/"+m.Name, fmt.Sprintf("%s %s, on %q", m.Name, phase, nodes[m.Name]))
	}

	return ready, nil
}

// lookAtPods shows the ready pods on each Node, and reports whether all are ready.
func (d *demo) lookAtPods(ctx context.Context, seen *drained) (bool, error) {
	list := &corev1.PodList{}
	if err := d.seed.Target.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "web"}); err != nil {
		return false, err
	}

	ready := 0
	onNode := map[string]int{}

	for i := range list.Items {
		if isReady(&list.Items[i]) {
			ready++
			onNode[list.Items[i].Spec.NodeName]++
		}
	}

	seen.fewest = min(seen.fewest, ready)

	d.tell(seen, "shoot", fmt.Sprintf("%d of %d pods are ready: %v", ready, replicas, onNode))

	return ready == replicas, nil
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
