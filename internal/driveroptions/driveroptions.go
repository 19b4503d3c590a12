// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package driveroptions defines the driver's options and their flags, and creates the driver from
// them. It is the only place that wires the plugin to its provider clusters: machine-controller
// runs the driver in its process, mcm-kubevirt serve over gRPC, mcm-kubevirt diagnose uses it to
// explain machines, and the integration tests change settings that have no flag. It must not depend on
// how the driver is called.
package driveroptions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation/provider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the driver's options, each with the package that uses it. The caller sets those that
// describe the machine controller: CreationTimeout, OrphanPeriod, Workers, NeedAddress and the fields of
// Plugin.
type Options struct {
	Plugin   kubevirt.Options
	Machines providercluster.Options
	// Requests need no Burst, Servers and Called.
	Requests providerapi.Options
	// AllowInternalServers allows kubeconfigs with servers of the driver's own host and cluster.
	AllowInternalServers bool
	// ImageClock is the clock for the age of golden images.
	ImageClock clock.PassiveClock
}

// New returns the defaults.
func New() *Options {
	return &Options{
		Plugin: kubevirt.Options{Allowed: validation.Options{Template: validation.TemplateSafe}},
		Machines: providercluster.Options{
			UnschedulableGrace: 30 * time.Second,
			OrphanGracePeriod:  10 * time.Minute,
			Clock:              clock.RealClock{},
		},
		// machine-controller-manager treats every error as a failed machine.
		Requests:             providerapi.Options{QPS: 100, RetryFor: 15 * time.Second},
		AllowInternalServers: true,
		ImageClock:           clock.RealClock{},
	}
}

// AddFlags adds the flags to those of a command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Float32Var(&o.Requests.QPS, "provider-kube-api-qps", o.Requests.QPS,
		"Maximum requests per second to the API server of one provider cluster, with bursts of twice as many; lower it if many shoots share a "+
			"small provider cluster.")
	fs.DurationVar(&o.Machines.UnschedulableGrace, "unschedulable-grace", o.Machines.UnschedulableGrace,
		"How long a lack of capacity, quota or a permission must last before it is reported; raise it if the provider cluster's own "+
			"autoscaler needs longer to add nodes. A failure that the provider cluster retries, such as an import, is reported after twice that "+
			"time, and a failure that usually resolves itself after ten times that time.")
	fs.DurationVar(&o.Machines.OrphanGracePeriod, "orphan-grace-period", o.Machines.OrphanGracePeriod,
		"Minimum time a VirtualMachine must be orphaned before it is deleted; raise it if an old and a new control plane may run at the same time "+
			"for longer while a shoot is moved.")
	fs.StringVar((*string)(&o.Plugin.Allowed.Template), "virtual-machine-template", string(o.Plugin.Allowed.Template),
		"Allowed content of virtualMachineTemplate in a ProviderSpec: none, safe (no host disks, service accounts or hook sidecars) or all; set it "+
			"depending on the trust in the owners of MachineClasses.")
	fs.BoolFunc("log-serial-console",
		"Whether KubeVirt logs the serial consoles of new machines (logSerialConsole), in which mcm-kubevirt diagnose finds why a guest does not "+
			"join. Unless it is set, the provider cluster decides; KubeVirt's default is to log them. Existing machines do not change.",
		o.setLogConsole)
	fs.BoolVar(&o.AllowInternalServers, "allow-internal-provider-servers", o.AllowInternalServers,
		"Allow kubeconfigs whose server is a loopback or link-local address, or a service of the driver's own cluster; set it to false if the "+
			"authors of kubeconfigs must not reach servers in the network of the driver, such as shoot owners in a seed.")
}

func (o *Options) setLogConsole(value string) error {
	enabled, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("must be true or false")
	}

	o.Plugin.Allowed.LogConsole = &enabled

	return nil
}

// Validate returns an error that lists all flags with an invalid value.
func (o *Options) Validate() error {
	return errors.Join(
		require(o.Requests.QPS > 0, "--provider-kube-api-qps must be greater than zero"),
		require(o.Machines.UnschedulableGrace >= 0, "--unschedulable-grace must not be negative"),
		require(o.Machines.OrphanGracePeriod >= 0, "--orphan-grace-period must not be negative"),
		require(slices.Contains(validation.TemplatePolicies, o.Plugin.Allowed.Template), "--virtual-machine-template must be none, safe or all"),
	)
}

func require(ok bool, message string) error {
	if ok {
		return nil
	}

	return errors.New(message)
}

// ProviderClusters gives access to provider clusters, with shared clients.
type ProviderClusters struct {
	Machines  *providercluster.Machines
	Explainer *providercluster.Explainer
	Evacuator *provider.Evacuator
}

// ProviderClusters returns the access to provider clusters, and registers the metrics of clients
// and golden images.
func (o *Options) ProviderClusters(metrics prometheus.Registerer) (*ProviderClusters, error) {
	requests := o.Requests
	requests.Burst = max(1, int(2*requests.QPS))
	requests.Called = func(c providerapi.Call) { kubevirt.CountRequest(c.Service, c.Duration, c.Failed) }
	requests.Servers = transport.ExternalServers
	if o.AllowInternalServers {
		requests.Servers = transport.AnyServer
	}

	clients := providerapi.NewCache(requests)
	manager := images.NewManager(o.ImageClock, o.Machines.OrphanPeriod)

	if err := errors.Join(metrics.Register(clients), metrics.Register(manager)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	return &ProviderClusters{
		Machines:  providercluster.NewMachines(clients, manager, o.Machines),
		Explainer: providercluster.NewExplainer(clients, o.Machines.Clock, o.Machines.UnschedulableGrace),
		Evacuator: provider.New(clients),
	}, nil
}

// NewPlugin returns the driver on top of the given PluginSPI, and registers its metrics.
func (o *Options) NewPlugin(provider spi.PluginSPI, metrics prometheus.Registerer) (*kubevirt.MachinePlugin, error) {
	plugin := kubevirt.New(provider, o.Plugin)

	return plugin, plugin.RegisterMetrics(metrics)
}
