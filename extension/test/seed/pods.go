package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// kubelet runs the pod of a Deployment in a shoot's namespace, machine-controller-manager or that of volumePods: it
// starts the program of each container with its arguments, and writes its volumes. Only what a pod gets from its
// sandbox differs: paths of volumes are in a folder, ports are free ones of the loopback interface, and the
// in-cluster configuration is a kubeconfig of the pod's service account. For the Deployments of charts, it
// only writes the volumes: startInstalled, installedPods.
type kubelet struct {
	seed   *Seed
	key    client.ObjectKey
	folder string
	// mayStart reports whether the pod may start; nil means always.
	mayStart func(context.Context, *appsv1.Deployment) (bool, error)
	// mayExit is set if the programs may exit by themselves: they are started again, without an error for a test.
	mayExit bool

	running  []*process.Process
	template corev1.PodTemplateSpec
	// ports are the free ports that take the place of those of the proxy: each pod has its own network.
	ports map[string]string
}

// runDeployment keeps the pod of the Deployment running until ctx ends, and then stops it.
func (s *Seed) runDeployment(ctx context.Context, namespace string) (failed error) {
	k := &kubelet{
		seed: s, key: client.ObjectKey{Namespace: namespace, Name: v1beta1constants.DeploymentNameMachineControllerManager},
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
		return k.stop(ctx)
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

	if k.mayStart != nil {
		if allowed, err := k.mayStart(ctx, deployment); err != nil || !allowed {
			return err
		}
	}

	return k.restart(ctx, deployment)
}

// choosePorts chooses the ports of the container through which the pod reaches the provider cluster.
func (k *kubelet) choosePorts(ctx context.Context, deployment *appsv1.Deployment) error {
	if k.ports != nil {
		return nil
	}

	ports := map[string]string{}

	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name != "kubevirt-provider-proxy" {
			continue
		}

		for _, arg := range container.Command {
			if name, port, found := strings.Cut(arg, "="); found && strings.HasSuffix(name, "port") {
				free, err := process.FreePorts(ctx, 1)
				if err != nil {
					return err
				}

				ports[port] = strconv.Itoa(free[0])
			}
		}
	}

	k.ports = ports

	return nil
}

// restart starts the processes of the Deployment instead of those that run.
func (k *kubelet) restart(ctx context.Context, deployment *appsv1.Deployment) error {
	if err := k.stop(ctx); err != nil {
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
		case err != nil && k.mayExit:
			return fmt.Errorf("restarted: %w", err)
		case err != nil:
			return fmt.Errorf("%w: %w", errCrashed, err)
		}
	}

	return nil
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

// awaitVolumes writes the projected Secrets as soon as they have all keys.
func (k *kubelet) awaitVolumes(ctx context.Context, deployment *appsv1.Deployment) error {
	const every, atMost = 100 * time.Millisecond, time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		return k.writeVolumes(ctx, deployment)
	})

	return wrap(err, "write the volumes of Deployment "+k.key.String())
}

// writeVolumes writes the Secrets and ConfigMaps, and makes the folders of the other volumes. It reports false while
// one of the Secrets has not all keys, for which a kubelet waits too.
func (k *kubelet) writeVolumes(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.EmptyDir != nil {
			if err := os.MkdirAll(filepath.Join(k.folder, volume.Name), 0o700); err != nil {
				return false, err
			}

			continue
		}

		files, err := k.filesOf(ctx, volume)
		if err != nil || files == nil {
			return false, err
		}

		if err := k.writeFiles(volume.Name, files, deployment.Spec.Template.Spec.Containers); err != nil {
			return false, err
		}
	}

	return true, nil
}

// filesOf returns the files of a volume; nil if it is not complete yet.
func (k *kubelet) filesOf(ctx context.Context, volume corev1.Volume) (map[string][]byte, error) {
	switch {
	case volume.Projected != nil:
		return k.filesOfSecrets(ctx, volume.Projected.Sources)
	case volume.Secret != nil:
		return k.filesOfSecrets(ctx, []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: volume.Secret.SecretName}, Items: volume.Secret.Items,
		}}})
	case volume.ConfigMap != nil:
		return k.filesOfConfigMap(ctx, volume.ConfigMap.Name)
	default:
		return nil, fmt.Errorf("volume %s has a source that the lab does not know", volume.Name)
	}
}

func (k *kubelet) filesOfConfigMap(ctx context.Context, name string) (map[string][]byte, error) {
	config := &corev1.ConfigMap{}
	if err := k.seed.watched.Get(ctx, client.ObjectKey{Namespace: k.key.Namespace, Name: name}, config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}

	files := map[string][]byte{}
	for file, content := range config.Data {
		files[file] = []byte(content)
	}

	return files, nil
}

func (k *kubelet) filesOfSecrets(ctx context.Context, sources []corev1.VolumeProjection) (map[string][]byte, error) {
	files := map[string][]byte{}

	for _, source := range sources {
		if source.Secret == nil {
			return nil, errors.New("a source of a projected volume is not a Secret")
		}

		secret := &corev1.Secret{}
		if err := k.seed.watched.Get(ctx, client.ObjectKey{Namespace: k.key.Namespace, Name: source.Secret.Name}, secret); err != nil {
			return nil, client.IgnoreNotFound(err)
		}

		for _, item := range source.Secret.Items {
			if len(secret.Data[item.Key]) == 0 {
				return nil, nil //nolint:nilnil // see above
			}

			files[item.Path] = secret.Data[item.Key]
		}
	}

	return files, nil
}

// writeFiles writes the files of a volume. Paths in them are translated as those in arguments.
func (k *kubelet) writeFiles(volume string, files map[string][]byte, containers []corev1.Container) error {
	folder := filepath.Join(k.folder, volume)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}

	for name, data := range files {
		for _, container := range containers {
			for _, mount := range container.VolumeMounts {
				if mount.Name == volume {
					data = bytes.ReplaceAll(data, []byte(mount.MountPath), []byte(folder))
				}
			}
		}

		for port, free := range k.ports {
			data = bytes.ReplaceAll(data, []byte("//127.0.0.1:"+port), []byte("//127.0.0.1:"+free))
		}

		if err := replaceFile(filepath.Join(folder, name), data); err != nil {
			return err
		}
	}

	return nil
}

// replaceFile changes the content of a file. As with a kubelet, a program reads the old content or the new one.
func replaceFile(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}

	next, err := os.CreateTemp(filepath.Dir(name), ".next-")
	if err != nil {
		return err
	}

	_, err = next.Write(data)
	if err := errors.Join(err, next.Close()); err != nil {
		return err
	}

	return os.Rename(next.Name(), name)
}

func (k *kubelet) start(ctx context.Context, deployment *appsv1.Deployment) error {
	inCluster, err := k.inClusterConfig(ctx, deployment)
	if err != nil {
		return err
	}

	k.template = *deployment.Spec.Template.DeepCopy()

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
		Name: k.key.Namespace + "-" + container.Name, Path: program.path, Args: program.args, Env: k.environment(container),
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
		return containerProgram{filepath.Join(k.seed.programs.folder, container.Command[0]), slices.Clone(container.Command[1:]), false}, nil
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
