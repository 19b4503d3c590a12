// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// kubelet runs the pod of a Deployment: machine-controller-manager, one of volumePods, or a program that a chart of this
// repository installs. It starts the program of each container with its arguments, and writes its volumes. Only what a
// pod gets from its sandbox differs: paths of volumes are in a folder, ports are free ones of the loopback interface,
// and the in-cluster configuration is a kubeconfig of the pod's service account.
type kubelet struct {
	seed   *Seed
	key    client.ObjectKey
	folder string
	// mayStart reports whether the pod may start; nil means always.
	mayStart func(context.Context, *appsv1.Deployment) (bool, error)
	// mayExit is set if the programs may exit by themselves: they are started again, without an error for a test.
	mayExit bool
	// installed reports changes of the pod of a chart; nil for other Deployments. Only that of a chart has Pods in the
	// API server.
	installed func(format string, args ...any)

	running  []*process.Process
	template corev1.PodTemplateSpec
	// ports are the free ports that take the place of those of the proxy: each pod has its own network.
	ports map[string]string
}

// runDeployment keeps the pod of the Deployment running until ctx ends, and then stops it.
func (s *Seed) runDeployment(ctx context.Context, namespace string) (failed error) {
	k := &kubelet{
		seed:   s,
		key:    client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameMachineControllerManager},
		folder: filepath.Join(s.Folder, "pods", namespace),
	}
	defer func() { failed = errors.Join(failed, k.stop(ctx)) }()

	const every = 250 * time.Millisecond

	return s.play(ctx, every, "run Deployment "+k.key.String(), k.sync)
}

// sync makes the processes what the Deployment wants.
func (k *kubelet) sync(ctx context.Context) error {
	deployment := &appsv1.Deployment{}

	err := k.seed.watched.Get(ctx, k.key, deployment)
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(deployment.Spec.Replicas, 1) == 0 {
		return k.end(ctx)
	}

	if err != nil {
		return err
	}

	if err := k.crashed(); err != nil {
		return errors.Join(err, k.stop(ctx)) // The next call starts all of them again.
	}

	if err := k.choosePorts(ctx, deployment); err != nil {
		return err
	}

	mounted, err := k.writeVolumes(ctx, deployment)
	if err != nil || !mounted {
		return err
	}

	if len(k.running) > 0 && equality.Semantic.DeepEqual(k.template, deployment.Spec.Template) {
		return nil
	}

	return k.restart(ctx, deployment)
}

// restart starts the processes of the Deployment, as soon as they may start, instead of those that run.
func (k *kubelet) restart(ctx context.Context, deployment *appsv1.Deployment) error {
	if k.mayStart != nil {
		if allowed, err := k.mayStart(ctx, deployment); err != nil || !allowed {
			return err
		}
	}

	if err := k.end(ctx); err != nil {
		return err
	}

	if err := k.start(ctx, deployment); err != nil {
		return errors.Join(err, k.stop(ctx))
	}

	return nil
}

// errCrashed is the error of a process that ended by itself.
var errCrashed = errors.New("crashed")

// crashed returns the error of a process that ended by itself.
func (k *kubelet) crashed() error {
	for _, p := range k.running {
		switch err := p.Err(); {
		case err != nil && (k.mayExit || gaveUp(err)):
			return fmt.Errorf("restarted: %w", err)
		case err != nil:
			return fmt.Errorf("%w: %w", errCrashed, err)
		}
	}

	return nil
}

// gaveUp reports whether a program has ended itself (klog.Fatal), as machine-controller-manager does when it could not renew its Lease in time.
// A panic has another exit code.
func gaveUp(err error) bool {
	const fatal = 255

	var exit *exec.ExitError

	return errors.As(err, &exit) && exit.ExitCode() == fatal
}

// stop ends the processes, also if ctx has ended.
func (k *kubelet) stop(ctx context.Context) error {
	ctx, cancel := stopping(ctx)
	defer cancel()

	var failed error

	for _, p := range slices.Backward(k.running) {
		failed = errors.Join(failed, p.Stop(ctx))
	}

	k.running = nil

	return failed
}

// end ends the processes, and deletes the Pods of a chart's Deployment.
func (k *kubelet) end(ctx context.Context) error {
	err := k.stop(ctx)
	if k.installed == nil || len(k.template.Labels) == 0 { // It has not been started.
		return err
	}

	k.installed("stopped %s: it has ended, or its Deployment has changed", k.key)

	labels := client.MatchingLabels(k.template.Labels)
	k.template = corev1.PodTemplateSpec{}

	return errors.Join(err, k.seed.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(k.key.Namespace), labels))
}

func (k *kubelet) start(ctx context.Context, deployment *appsv1.Deployment) error {
	k.template = *deployment.Spec.Template.DeepCopy()

	if k.installed != nil {
		if err := k.reportPods(ctx, deployment, false); err != nil {
			return err
		}

		_, err := k.startInstalled(ctx, deployment)

		return err
	}

	inCluster, err := k.inClusterConfig(ctx, deployment)
	if err != nil {
		return err
	}

	for _, container := range k.template.Spec.Containers {
		if err := k.startContainer(ctx, container, inCluster); err != nil {
			return err
		}
	}

	return k.reportReady(ctx, deployment)
}

// inClusterConfig writes the in-cluster configuration of a pod; "" if it has none.
func (k *kubelet) inClusterConfig(ctx context.Context, deployment *appsv1.Deployment) (string, error) {
	pod := deployment.Spec.Template.Spec
	if !ptr.Deref(pod.AutomountServiceAccountToken, true) {
		return "", nil
	}

	account := client.ObjectKey{Namespace: k.key.Namespace, Name: pod.ServiceAccountName}

	return k.seed.inClusterConfig(ctx, account, filepath.Join(k.folder, "in-cluster.kubeconfig"))
}

func (k *kubelet) startContainer(ctx context.Context, container corev1.Container, inCluster string) error {
	program, err := k.programOf(container)
	if err != nil || program.path == "" {
		return err
	}

	for i := range program.args {
		program.args[i] = k.inSandbox(program.args[i], container, inCluster)
	}

	health := ""

	if program.isProbed {
		ports, err := process.FreePorts(ctx, 1)
		if err != nil {
			return err
		}

		program.args = append(program.args, "--address=127.0.0.1", fmt.Sprintf("--port=%d", ports[0]))
		health = fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[0])
	}

	p, err := k.seed.group.Start(process.Spec{
		Name: k.key.Namespace + "-" + container.Name,
		Path: program.path,
		Args: program.args,
		Env:  k.environment(container),
	})
	if err != nil {
		return err
	}

	k.running = append(k.running, p)
	if health == "" {
		return nil
	}

	return awaitHealthy(ctx, p, health)
}

// containerProgram is the program of a container.
type containerProgram struct {
	path string // empty if the lab does not have it
	args []string
	// isProbed is set if it serves its health at --address and --port.
	isProbed bool
}

// programOf returns the program of a container's image, and its arguments.
func (k *kubelet) programOf(container corev1.Container) (containerProgram, error) {
	switch container.Name {
	case "machine-controller-manager":
		return containerProgram{k.seed.state.MachineControllerManager, slices.Clone(container.Command[1:]), true}, nil
	case "machine-controller-manager-provider-kubevirt":
		return containerProgram{k.seed.programs.driver, slices.Clone(container.Args), true}, nil
	}

	if len(container.Command) > 0 { // a command of the extension
		args := slices.Clone(container.Command[1:])
		if container.Name == cloudControllerContainer {
			args = append(args, cloudControllerArgs...)
		}

		return containerProgram{filepath.Join(k.seed.programs.folder, container.Command[0]), args, false}, nil
	}

	path, err := k.seed.programOfVolumes(container)

	return containerProgram{path, slices.Clone(container.Args), false}, err
}

// inSandbox translates an argument.
func (k *kubelet) inSandbox(arg string, container corev1.Container, inCluster string) string {
	arg = strings.ReplaceAll(arg, "inClusterConfig", inCluster)

	if name, port, found := strings.Cut(arg, "="); found && k.ports[port] != "" {
		arg = name + "=" + k.ports[port]
	}

	for _, variable := range container.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.FieldRef != nil && variable.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			arg = strings.ReplaceAll(arg, "$("+variable.Name+")", k.key.Namespace)
		}
	}

	for _, mount := range container.VolumeMounts {
		folder := filepath.Join(k.folder, mount.Name)
		arg = strings.ReplaceAll(arg, mount.MountPath+"/", folder+"/")

		if before, found := strings.CutSuffix(arg, mount.MountPath); found {
			arg = before + folder
		}
	}

	return arg
}

// environmentOf returns the environment variables of a Deployment's first container. Values that are files
// in its volumes are translated.
func (k *kubelet) environmentOf(deployment *appsv1.Deployment) ([]string, error) {
	var env []string

	container := deployment.Spec.Template.Spec.Containers[0]
	for _, variable := range container.Env {
		value := k.pathOf(variable.Value, container)

		if from := variable.ValueFrom; from != nil {
			if from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.namespace" {
				return nil, fmt.Errorf("environment variable %s has a source that the lab does not know", variable.Name)
			}

			value = deployment.Namespace
		}

		env = append(env, variable.Name+"="+value)
	}

	return env, nil
}

// pathOf returns the path of a file in a volume of a container; other values unchanged.
func (k *kubelet) pathOf(value string, container corev1.Container) string {
	for _, mount := range container.VolumeMounts {
		if file, found := strings.CutPrefix(value, mount.MountPath+"/"); found {
			return filepath.Join(k.folder, mount.Name, file)
		}
	}

	return value
}

func (k *kubelet) environment(container corev1.Container) []string {
	env := []string{"KUBECONFIG="} // Some programs prefer it to their arguments.

	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}

	return env
}

// reportReady writes the status as the controllers of a seed would.
func (k *kubelet) reportReady(ctx context.Context, deployment *appsv1.Deployment) error {
	before := deployment.DeepCopy()
	deployment.Status = statusOf(deployment, true)

	return client.IgnoreNotFound(k.seed.Client.Status().Patch(ctx, deployment, client.MergeFrom(before)))
}
