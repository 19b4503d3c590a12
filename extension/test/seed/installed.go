// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RunInstalled runs the extension and the admission as a kubelet does, one process for each Deployment that
// refers to their images: it starts, restarts and stops the process with the Deployment, updates the files of
// its volumes, and writes the Deployment's status. It returns when ctx ends, after it has stopped all of them.
// report is called for each change and error.
func (s *Seed) RunInstalled(ctx context.Context, report func(format string, args ...any)) {
	const every = time.Second

	var running sync.WaitGroup
	defer running.Wait()

	known := map[client.ObjectKey]bool{}

	Repeat(ctx, every, backOff, func(err error) { report("%v", err) }, func(ctx context.Context) error {
		deployments := &appsv1.DeploymentList{}
		if err := s.Client.List(ctx, deployments); err != nil {
			return fmt.Errorf("list Deployments: %w", err)
		}

		for i := range deployments.Items {
			pod := s.kubeletFor(&deployments.Items[i])
			pod.installed = report

			if _, found := s.programFor(&deployments.Items[i]); found && !known[pod.key] {
				known[pod.key] = true

				running.Go(func() { pod.run(ctx) })
			}
		}

		return nil
	})
}

// run runs the pod of a chart's Deployment until ctx ends, whether the Deployment exists or not.
func (k *kubelet) run(ctx context.Context) {
	const every = time.Second

	report := func(err error) { k.installed("run %s: %v", k.key, err) }

	Repeat(ctx, every, backOff, report, func(ctx context.Context) error {
		return errors.Join(k.sync(ctx), k.reportRunning(ctx))
	})

	if err := k.stop(ctx); err != nil {
		report(err)
	}
}

// reportPods creates the Pods of a chart's Deployment, and writes their status: without them, gardener-resource-manager
// reports a rollout. One process runs for all of them.
func (k *kubelet) reportPods(ctx context.Context, d *appsv1.Deployment, ready bool) error {
	if k.installed == nil {
		return nil
	}

	for i := range ptr.Deref(d.Spec.Replicas, 1) {
		pod := podOf(d, int(i))
		if err := k.seed.Client.Create(ctx, pod); err != nil {
			if !apierrors.IsAlreadyExists(err) {
				return err
			}

			if err := k.seed.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
		}

		if err := k.seed.reportPod(ctx, pod, ready); err != nil {
			return err
		}
	}

	return nil
}

// podOf returns a Pod of a Deployment. No scheduler places it, and the seed has no PriorityClasses.
func podOf(d *appsv1.Deployment, number int) *corev1.Pod {
	template := d.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   d.Namespace,
			Name:        fmt.Sprintf("%s-%d", d.Name, number),
			Labels:      template.Labels,
			Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	pod.Spec.SchedulerName = "none"
	pod.Spec.PriorityClassName = ""

	return pod
}

// reportPod writes the status of a Pod if it differs.
func (s *Seed) reportPod(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}

	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready == ready {
		return nil
	}

	container := pod.Spec.Containers[0]
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:    container.Name,
		Image:   container.Image,
		Ready:   ready,
		Started: ptr.To(true),
		State:   corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}

	return s.Client.Status().Update(ctx, pod)
}

// installedProgram is a program of this repository that charts install.
type installedProgram struct {
	path string
	args []string
	// needed is a permission of its account.
	needed authorizationv1.ResourceAttributes
}

// programFor returns the program of a Deployment; false if it is none of this repository.
func (s *Seed) programFor(d *appsv1.Deployment) (installedProgram, bool) {
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return installedProgram{}, false
	}

	for _, program := range []installedProgram{
		{
			path:   s.programs.extension,
			args:   s.ExtensionArgs,
			needed: authorizationv1.ResourceAttributes{Verb: "list", Group: "extensions.gardener.cloud", Resource: "clusters"},
		},
		{
			path:   s.programs.admission,
			needed: authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: d.Namespace},
		},
	} {
		if filepath.Base(program.path) == programOf(containers[0].Image) {
			return program, true
		}
	}

	return installedProgram{}, false
}
