package seed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installedPod is the process of a Deployment that runs a program of this repository.
type installedPod struct {
	template corev1.PodTemplateSpec
	ready    atomic.Bool
	cancel   context.CancelFunc
	ended    chan struct{}
}

// stop ends the process, and waits for its end.
func (p *installedPod) stop() {
	p.cancel()
	<-p.ended
}

// installedPods are the running ones, by the names of their Deployments.
type installedPods struct {
	seed    *Seed
	report  func(format string, args ...any)
	running map[client.ObjectKey]*installedPod
}

// RunInstalled runs the extension and the admission as a kubelet does, one process for each Deployment that
// refers to their images: it starts, restarts and stops the process with the Deployment, updates the files of
// its volumes, and writes the Deployment's status. It returns when ctx ends, after it has stopped all of them.
// report is called for each change and error.
func (s *Seed) RunInstalled(ctx context.Context, report func(format string, args ...any)) {
	const every = time.Second

	pods := &installedPods{seed: s, report: report, running: map[client.ObjectKey]*installedPod{}}
	defer pods.stopAll()

	Repeat(ctx, every, backOff, func(err error) { report("%v", err) }, pods.sync)
}

func (p *installedPods) stopAll() {
	for _, pod := range p.running {
		pod.stop()
	}
}

// sync makes the processes what the Deployments want.
func (p *installedPods) sync(ctx context.Context) error {
	deployments := &appsv1.DeploymentList{}
	if err := p.seed.Client.List(ctx, deployments); err != nil {
		return fmt.Errorf("list Deployments: %w", err)
	}

	wanted := map[client.ObjectKey]*appsv1.Deployment{}

	for i := range deployments.Items {
		d := &deployments.Items[i]
		if _, found := p.seed.programFor(d); found && d.DeletionTimestamp == nil && ptr.Deref(d.Spec.Replicas, 1) > 0 {
			wanted[client.ObjectKeyFromObject(d)] = d
		}
	}

	failed := p.stopOthers(ctx, wanted)
	for _, d := range wanted {
		failed = errors.Join(failed, p.keep(ctx, d))
	}

	return failed
}

// keep starts the process of a Deployment if it does not run, updates its volumes, and reports its state.
func (p *installedPods) keep(ctx context.Context, d *appsv1.Deployment) error {
	key := client.ObjectKeyFromObject(d)
	if p.running[key] == nil {
		p.running[key] = p.start(ctx, d)
	}

	var failed error

	ready := p.running[key].ready.Load()
	if ready { // It wrote them before.
		_, err := p.seed.kubeletFor(d).writeVolumes(ctx, d)
		failed = wrap(err, "update the volumes of Deployment "+key.String())
	}

	if err := p.reportRunning(ctx, d, ready); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		failed = errors.Join(failed, fmt.Errorf("report the state of Deployment %s: %w", key, err))
	}

	return failed
}

// reportRunning writes the status of a Deployment, and creates its Pods: without them, gardener-resource-manager reports
// a rollout. One process runs for all of them.
func (p *installedPods) reportRunning(ctx context.Context, d *appsv1.Deployment, ready bool) error {
	for i := range ptr.Deref(d.Spec.Replicas, 1) {
		pod := podOf(d, int(i))
		if err := p.seed.Client.Create(ctx, pod); err != nil {
			if !apierrors.IsAlreadyExists(err) {
				return err
			}

			if err := p.seed.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
		}

		if err := p.reportPod(ctx, pod, ready); err != nil {
			return err
		}
	}

	return p.seed.reportDeployment(ctx, d, ready)
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
func (p *installedPods) reportPod(ctx context.Context, pod *corev1.Pod, ready bool) error {
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

	return p.seed.Client.Status().Update(ctx, pod)
}

// stopOthers stops the processes whose Deployment is gone or has changed, and deletes their Pods.
func (p *installedPods) stopOthers(ctx context.Context, wanted map[client.ObjectKey]*appsv1.Deployment) error {
	var failed error

	for key, pod := range p.running {
		d := wanted[key]
		if d != nil && equality.Semantic.DeepEqual(d.Spec.Template, pod.template) {
			continue
		}

		if d == nil {
			p.report("stopping %s: its Deployment is deleted or scaled to zero", key)
		} else {
			p.report("restarting %s: its pod template has changed", key)
		}

		pod.stop()
		delete(p.running, key)

		if err := p.seed.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(key.Namespace), client.MatchingLabels(pod.template.Labels)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete the Pods of Deployment %s: %w", key, err))
		}
	}

	return failed
}

// start runs the process of a Deployment until it is stopped, and restarts it when it ends.
func (p *installedPods) start(ctx context.Context, d *appsv1.Deployment) *installedPod {
	ctx, cancel := context.WithCancel(ctx)
	pod := &installedPod{template: *d.Spec.Template.DeepCopy(), cancel: cancel, ended: make(chan struct{})}

	go func() {
		defer close(pod.ended)

		for ctx.Err() == nil {
			if err := p.run(ctx, d.DeepCopy(), pod); err != nil && ctx.Err() == nil {
				p.report("cannot run %s, trying again: %v", client.ObjectKeyFromObject(d), err)
			}

			select {
			case <-ctx.Done():
			case <-time.After(backOff):
			}
		}
	}()

	return pod
}

// run runs the process of a Deployment once.
func (p *installedPods) run(ctx context.Context, d *appsv1.Deployment, pod *installedPod) error {
	running, metrics, err := p.seed.startInstalled(ctx, d)
	if running != nil {
		defer func() {
			ctx, cancel := stopping(ctx)
			defer cancel()

			_ = running.Stop(ctx) // Seed.Stop reports it.
		}()
	}

	if err != nil {
		return err
	}

	p.report("started %s as process %d; log %s, metrics %s", client.ObjectKeyFromObject(d), running.PID(), running.LogFile(), metrics)
	pod.ready.Store(true)

	defer pod.ready.Store(false)

	select {
	case <-ctx.Done():
		return nil
	case <-running.Exited():
		return running.Err()
	}
}

// installedProgram is a program of this repository that charts install.
type installedProgram struct {
	path string
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
		{s.programs.extension, authorizationv1.ResourceAttributes{Verb: "list", Group: "extensions.gardener.cloud", Resource: "clusters"}},
		{s.programs.admission, authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: d.Namespace}},
	} {
		if filepath.Base(program.path) == programOf(containers[0].Image) {
			return program, true
		}
	}

	return installedProgram{}, false
}
