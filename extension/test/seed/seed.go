// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"crypto/ecdsa"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Seed is a running seed with the extension.
type Seed struct {
	// Client, Provider and Target are clients with all permissions for the seed, for the provider
	// cluster, and for the cluster of the shoots' Nodes.
	Client, Provider, Target client.Client
	// Garden is a client with all permissions for the virtual garden cluster. The seed is its runtime cluster.
	Garden client.Client
	// Extension is the process of the extension.
	Extension *process.Process
	// ExtensionArgs are further arguments of the extension when it starts again: it starts with those of its chart.
	ExtensionArgs []string
	// ExtensionMetrics and AdmissionMetrics are the URLs of the programs' metrics.
	ExtensionMetrics, AdmissionMetrics string
	// Folder has the logs of all processes.
	Folder string

	root     string // of the repository
	state    *labState
	programs programs
	group    *process.Group

	// watched reads the seed from watches, as kubelets do. Deployments, Secrets and ConfigMaps are read several
	// times a second for each shoot, which would keep the API server busy.
	watched client.Reader
	// endWatches ends the watches; nil if there are none yet.
	endWatches func() error

	seedConfig, providerConfig, targetConfig, gardenConfig *rest.Config

	gardenKubeconfig string
	// workloadIdentityKey signs the tokens of WorkloadIdentities.
	workloadIdentityKey *ecdsa.PrivateKey

	withoutExtension bool
	withMonitoring   bool
	withRealNodes    bool

	// report receives the errors of the shoots' pods; reportsOnly is set if StopPods does not return them.
	report      func(format string, args ...any)
	reportsOnly bool
}

// Option changes what Start starts.
type Option func(*Seed)

// WithoutExtension omits the extension, its admission and its registration: RunInstalled runs the programs
// when their Deployments are installed.
func WithoutExtension() Option { return func(s *Seed) { s.withoutExtension = true } }

// WithRealNodes gives the provider cluster two real nodes. Before Start, the process must have called Prepare and then node.Isolate.
func WithRealNodes() Option { return func(s *Seed) { s.withRealNodes = true } }

// Prepare builds what Start needs, which takes the network of the machine if it was never built.
func Prepare(ctx context.Context, progress io.Writer, options ...Option) error {
	s := &Seed{}
	for _, option := range options {
		option(s)
	}

	return s.build(ctx, progress)
}

// ReportErrors reports the errors of the shoots' pods to a function, instead of the writer for the progress and the
// caller of StopPods: a landscape goes on after them, but a test must fail.
func ReportErrors(report func(format string, args ...any)) Option {
	return func(s *Seed) {
		s.report = report
		s.reportsOnly = true
	}
}

// Start builds what it needs, and starts a lab, gardener-resource-managers, gardener-apiserver and the
// extension. ctx bounds the start. Callers must call Stop.
func Start(ctx context.Context, progress io.Writer, options ...Option) (*Seed, error) {
	folder, err := os.MkdirTemp("", "seed-")
	if err != nil {
		return nil, err
	}

	s := &Seed{Folder: folder, group: process.NewGroup(folder), report: func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }}
	for _, option := range options {
		option(s)
	}

	if err := s.start(ctx, progress); err != nil {
		return nil, s.abort(ctx, err)
	}

	return s, nil
}

// abort ends a start that failed. Its logs are of use only if it was not interrupted.
func (s *Seed) abort(ctx context.Context, failed error) error {
	keepLogs := ctx.Err() == nil && len(s.group.Processes()) > 0
	if keepLogs {
		failed = fmt.Errorf("%w (logs in %s)", failed, s.Folder)
	}

	stopping, cancel := stopping(ctx)
	defer cancel()

	return errors.Join(failed, s.Stop(stopping, keepLogs))
}

func (s *Seed) start(ctx context.Context, progress io.Writer) (err error) {
	if s.root, err = compile.Root(); err != nil {
		return err
	}

	if err := s.build(ctx, progress); err != nil {
		return err
	}

	if s.state, err = s.startLab(ctx, progress); err != nil {
		return err
	}

	if err := s.connect(); err != nil {
		return err
	}

	components := "Gardener's components and the extension"
	control := steps{s.watch, s.applyKinds, s.startResourceManagers, s.startExtension}
	garden := steps{s.applyNetworks, s.applySnapshots, s.startGarden}
	last := steps{s.startAdmission, s.registerExtensions}

	if s.withoutExtension {
		components = "Gardener's components"
		control = steps{s.watch, s.applyKinds, s.startResourceManagers, s.createGardenNamespace}
		last = steps{s.registerOtherExtensions}
	}

	defer reportStart(progress, components)()

	parallel, parallelCtx := errgroup.WithContext(ctx)
	parallel.Go(func() error { return control.run(parallelCtx) })
	parallel.Go(func() error { return garden.run(parallelCtx) })

	if err := parallel.Wait(); err != nil {
		return err
	}

	return last.run(ctx)
}

// steps depend on those before them.
type steps []func(context.Context) error

func (s steps) run(ctx context.Context) error {
	for _, step := range s {
		if err := step(ctx); err != nil {
			return err
		}
	}

	return nil
}

// Stop ends all processes, and kills those that still run when ctx ends. It removes the logs unless keepLogs is set
// or it fails. The lab removes its own logs when it ends, so they are copied before.
func (s *Seed) Stop(ctx context.Context, keepLogs bool) error {
	var err error
	if s.endWatches != nil {
		err = s.endWatches()
	}

	if keepLogs && s.state != nil {
		err = errors.Join(err, os.CopyFS(filepath.Join(s.Folder, "lab-logs"), os.DirFS(s.state.LogDir)))
	}

	if err = errors.Join(err, s.group.Stop(ctx)); err != nil || keepLogs {
		return err
	}

	return os.RemoveAll(s.Folder)
}

func (s *Seed) connect() (err error) {
	for _, c := range []struct {
		kubeconfig string
		scheme     *runtime.Scheme
		config     **rest.Config
		client     *client.Client
	}{
		{s.state.ControlKubeconfig, kubernetes.SeedScheme, &s.seedConfig, &s.Client},
		{s.state.ProviderKubeconfig, providerScheme(), &s.providerConfig, &s.Provider},
		{s.state.TargetKubeconfig, kubernetes.ShootScheme, &s.targetConfig, &s.Target},
	} {
		if *c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
			return err
		}

		(*c.config).QPS = 200
		(*c.config).Burst = 400

		if *c.client, err = client.New(*c.config, client.Options{Scheme: c.scheme}); err != nil {
			return err
		}
	}

	// The API server for the shoots' Nodes is also that of the virtual garden cluster: like the API server of
	// a garden, it accepts the tokens that gardener-resource-manager requests, and it is not that of the seed.
	s.gardenConfig = s.targetConfig
	s.gardenKubeconfig = s.state.TargetKubeconfig

	return nil
}

// watch makes watched ready. The watches begin with the first read of a kind, and end with Stop.
func (s *Seed) watch(ctx context.Context) error {
	// The tests and demonstrations report what matters; without a logger, controller-runtime prints a warning.
	logf.SetLogger(log)

	watched, end, err := startCache(ctx, s.seedConfig, cache.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return err
	}

	s.watched = watched
	s.endWatches = end

	return nil
}

// kinds are the groups of the kinds that the extension and Gardener's deployers use in a seed, and that
// of the extension's registration. The lab has those of machine-controller-manager.
var kinds = []string{
	"seed-crds/10-crd-extensions.gardener.cloud", "seed-crds/10-crd-resources.gardener.cloud", "seed-crds/10-crd-autoscaling.k8s.io",
	"seed-crds/10-crd-monitoring.coreos.com_prometheusrules", "seed-crds/10-crd-monitoring.coreos.com_servicemonitors",
	"seed-crds/10-crd-fluentbit.fluent.io_clusterfilters",
	"operator/10-crd-operator.gardener.cloud_extensions",
}

// applyKinds applies the CustomResourceDefinitions from Gardener's module.
func (s *Seed) applyKinds(ctx context.Context) error {
	folder, err := exec.CommandContext(ctx, "go", "-C", filepath.Join(s.root, "extension"), "list", "-m", "-f={{.Dir}}", "github.com/gardener/gardener").Output()
	if err != nil {
		return fmt.Errorf("find Gardener's module: %w", err)
	}

	var files []string

	for _, kind := range kinds {
		found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "example", kind+"*.yaml"))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("find the CustomResourceDefinitions of %s: %w", kind, err)
		}

		files = append(files, found...)
	}

	args := []string{"apply", "--server-side", "--kubeconfig=" + s.state.ControlKubeconfig}
	for _, file := range files {
		args = append(args, "--filename="+file)
	}

	return run(ctx, io.Discard, s.root, s.state.Kubectl, args...)
}

// manifests are those that only tests use: a Shoot, extensions that are registered in the garden, and
// Multus' CRD for the provider cluster.
//
//go:embed manifests
var manifests embed.FS

// The manifests of the documentation, in the order in which a user applies them.
const (
	ExampleProject            = "10-project.yaml"
	ExampleCloudProfile       = "30-cloudprofile.yaml"
	ExampleSecret             = "40-secret.yaml"
	ExampleCredentialsBinding = "50-credentialsbinding.yaml"
	// ExampleShoot is the Shoot of the 2020 user guide.
	ExampleShoot = "90-shoot.yaml"
)

// PlainShoot is a Shoot without settings of the extension, in three zones.
const PlainShoot = "shoot.yaml"

// exampleVersion is the Kubernetes version in these manifests.
const exampleVersion = "1.34.2"

// KubernetesVersion returns the version of all API servers, such as 1.34.2.
func (s *Seed) KubernetesVersion() string { return strings.TrimPrefix(s.state.KubernetesVersion, "v") }

// GuestImage returns the file with the disk image of guests whose kubelets join, for a provider cluster with real nodes.
func (s *Seed) GuestImage() string { return s.state.GuestImage }

// GuestDisk returns the container disk with that image, which real nodes can pull.
func (s *Seed) GuestDisk() string { return s.state.GuestDisk }

// GuestUserData returns the file with the user data of such guests.
func (s *Seed) GuestUserData() string { return s.state.GuestUserData }

// KubeVirtVersion returns KubeVirt's version on the provider cluster, such as 1.9.0.
func (s *Seed) KubeVirtVersion() string { return strings.TrimPrefix(s.state.KubeVirtVersion, "v") }

// TargetConfig is the configuration of Target.
func (s *Seed) TargetConfig() *rest.Config { return s.targetConfig }

// Versions names the versions of the API servers, and of KubeVirt and CDI on the provider cluster.
func (s *Seed) Versions() string {
	return fmt.Sprintf("Kubernetes %s, KubeVirt %s, CDI %s", s.state.KubernetesVersion, s.state.KubeVirtVersion, s.state.CDIVersion)
}

// namespace creates a namespace in the seed.
func (s *Seed) namespace(ctx context.Context, name string, labels map[string]string) error {
	return client.IgnoreAlreadyExists(s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
}

// awaitHealthy waits until a process serves an address successfully.
func awaitHealthy(ctx context.Context, p *process.Process, url string) error {
	const every, atMost = 200 * time.Millisecond, 3 * time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, fmt.Errorf("%w: %w", errCrashed, err)
		}

		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}

		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}

		return response.StatusCode == http.StatusOK, response.Body.Close()
	})

	return wrap(err, "start "+p.Name())
}

func wrap(err error, operation string) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", operation, err)
}

// log is where Gardener's deployers log what they wait for.
var log = logr.Discard()
