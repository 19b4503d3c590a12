// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

const (
	// finishTime bounds the wait for active calls on shutdown, and stopTime the whole shutdown.
	// Clients retry the calls that are cancelled.
	finishTime = time.Second
	stopTime   = 2500 * time.Millisecond
	// metricsTimeout bounds the reading of a request for metrics, and the writing of the response.
	metricsTimeout = 10 * time.Second
)

func serveCommand() *cobra.Command {
	o := newServeOptions()

	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the driver over gRPC",
		Long: `Runs the driver for machine controllers in other processes: machine-controller --driver-endpoint, or any client of
api/driver/v1/driver.proto. Only processes of the same user can connect to a unix socket. Over TCP, server and clients authenticate each
other with certificates, and only the clients named by --tls-client are served; the files can be replaced at any time. See
` + output.DocsURL + `grpc.md.
`,
		Example: `  mcm-kubevirt serve
  mcm-kubevirt serve --listen=tcp://:9443 --tls-cert=tls.crt --tls-key=tls.key --tls-client-ca=ca.crt --tls-client=shoot--foo--bar
  mcm-kubevirt serve --kubeconfig-dir=/etc/kubeconfigs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logs.InitLogs()
			// InitLogs disables contextual logging, which keeps the contents of Secrets out of
			// client-go's logs at -v=8.
			klog.EnableContextualLogging(true)

			defer logs.FlushLogs()

			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()

			return o.run(ctx)
		},
	}
	o.addTo(cmd.Flags())

	return cmd
}

// run serves until ctx is done.
func (o *serveOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	server, err := o.server(registry)
	if err != nil {
		return err
	}

	metrics, err := new(net.ListenConfig).Listen(ctx, "tcp", o.metricsAddress)
	if err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}

	listener, err := o.endpoint.Listen(ctx)
	if err != nil {
		return errors.Join(err, metrics.Close())
	}

	return serve(ctx, server, listener, metricsServer(registry), metrics)
}

func (o *serveOptions) server(registry prometheus.Registerer) (*driverrpc.Server, error) {
	o.driver.Machines.Workers = o.maxCalls
	if o.kubeconfigDir != "" {
		o.driver.Plugin.Kubeconfigs = kubeconfig.Folder(o.kubeconfigDir)
	}

	clusters, err := o.driver.ProviderClusters(registry)
	if err != nil {
		return nil, err
	}

	plugin, err := o.driver.NewPlugin(clusters.Machines, registry)
	if err != nil {
		return nil, err
	}

	credentials := insecure.NewCredentials()
	if !o.endpoint.Local() {
		if credentials, err = driverrpc.ServerCredentials(o.files, o.clients); err != nil {
			return nil, err
		}
	}

	return driverrpc.NewServer(plugin, driverrpc.ServerOptions{
		Info:        driverrpc.Info{Name: machineclass.Provider, Version: driveroptions.Release()},
		Credentials: credentials,
		MaxCalls:    o.maxCalls,
		Metrics:     registry,
	})
}

// metricsServer serves the metrics, and /healthz for kubelets, which cannot use a unix socket or
// present client certificates.
func metricsServer(metrics prometheus.Gatherer) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	return &http.Server{Handler: mux, ReadHeaderTimeout: metricsTimeout, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout}
}

// serve runs both servers until one of them fails, or ctx is done.
func serve(ctx context.Context, server *driverrpc.Server, listener net.Listener, metrics *http.Server, metricsListener net.Listener) error {
	ended := make(chan error, 2)

	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- fmt.Errorf("serve metrics: %w", metrics.Serve(metricsListener)) }()

	klog.InfoS("Serving", "version", driveroptions.Release(), "address", listener.Addr(), "metrics", metricsListener.Addr())

	var failed error

	select {
	case failed = <-ended:
	case <-ctx.Done():
		klog.InfoS("Stopping")
	}

	return errors.Join(failed, stopServer(context.WithoutCancel(ctx), server), metrics.Close())
}

// stopServer shuts the server down gracefully, within stopTime: the process then exits.
func stopServer(ctx context.Context, server *driverrpc.Server) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()

	stopped := make(chan struct{})

	go func() {
		server.Stop(ctx)
		close(stopped)
	}()

	select {
	case <-stopped:
		return nil
	case <-time.After(stopTime):
		return fmt.Errorf("calls did not end within %s", stopTime)
	}
}

// serveOptions specify the address, the clients and the driver.
type serveOptions struct {
	listen         string
	endpoint       driverrpc.Endpoint
	files          driverrpc.Files
	clients        []string
	metricsAddress string
	maxCalls       int
	kubeconfigDir  string
	driver         *driveroptions.Options
}

// newServeOptions returns the defaults. Flags of machine-controller-manager have its defaults.
func newServeOptions() *serveOptions {
	driver := driveroptions.New()
	driver.Plugin.CreationTimeout = 20 * time.Minute
	driver.Machines.OrphanPeriod = 15 * time.Minute

	return &serveOptions{
		listen:         "unix:///run/mcm-kubevirt/driver.sock",
		metricsAddress: "127.0.0.1:10261",
		maxCalls:       200,
		driver:         driver,
	}
}

func (o *serveOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", o.listen, "Address to serve on: unix:///path/of/socket for clients in the same pod, or tcp://address:port for remote clients.")
	flags.StringVar(&o.files.Certificate, "tls-cert", "", "File with the server's certificate, in PEM; required with --listen=tcp://…, and only allowed there.")
	flags.StringVar(&o.files.Key, "tls-key", "", "File with the private key of --tls-cert, in PEM; required with --listen=tcp://…, and only allowed there.")
	flags.StringVar(&o.files.Authorities, "tls-client-ca", "", "File with the CA certificates that client certificates are verified against, in PEM; required with --listen=tcp://…, and only allowed there.")
	flags.StringSliceVar(&o.clients, "tls-client", nil,
		"Name of an authorized client: the common name, a DNS name or a URI in its certificate; required with --listen=tcp://…, and only allowed "+
			"there. May be repeated.")
	flags.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "Address of /metrics and /healthz, over plain HTTP; set it so that Prometheus and the kubelet can connect.")
	flags.IntVar(&o.maxCalls, "max-concurrent-calls", o.maxCalls,
		"Maximum number of concurrent calls, half of which one client may use over TCP; further calls wait. Raise it for many machine "+
			"controllers: each of them makes up to 101 concurrent calls. Half as many calls may wait for a machine to be scheduled.")
	flags.StringVar(&o.kubeconfigDir, "kubeconfig-dir", "",
		"Folder with a kubeconfig per cluster, in a file named after the tag mcm.gardener.cloud/cluster; set it to keep the credentials out of "+
			"the control cluster. Requests that contain a kubeconfig are then refused. Empty: requests contain it.")
	flags.DurationVar(&o.driver.Plugin.CreationTimeout, "machine-creation-timeout", o.driver.Plugin.CreationTimeout,
		"Time after which the machine controller replaces a machine that has not joined, and until which failures of a machine are reported; set it "+
			"to the value of the machine controller's flag.")
	flags.DurationVar(&o.driver.Machines.OrphanPeriod, "machine-safety-orphan-vms-period", o.driver.Machines.OrphanPeriod,
		"Period of the machine controller's search for orphans; set it to the value of the machine controller's flag. A golden image is kept for two "+
			"periods after the last request that named its MachineClass.")
	flags.BoolVar(&o.driver.Machines.NeedAddress, "without-target-cluster", false,
		"Set it if the machine controller runs with --target-kubeconfig=none: a machine then counts as scheduled when it has an address.")
	o.driver.AddFlags(flags)
	logs.AddFlags(flags)
}

func (o *serveOptions) validate() (err error) {
	if o.endpoint, err = driverrpc.ParseEndpoint(o.listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}

	return errors.Join(o.driver.Validate(), o.validateTLS(), o.validateLimits())
}

func (o *serveOptions) validateTLS() error {
	complete := o.files.Certificate != "" && o.files.Key != "" && o.files.Authorities != "" && len(o.clients) > 0
	none := o.files == (driverrpc.Files{}) && len(o.clients) == 0

	switch {
	case o.endpoint.Local() && !none:
		return errors.New("--tls-* are only allowed with --listen=tcp://…, since only the owner of a socket can connect to it; remove them")
	case !o.endpoint.Local() && !complete:
		return errors.New("--listen=tcp://… requires --tls-cert, --tls-key, --tls-client-ca and --tls-client")
	case slices.Contains(o.clients, ""):
		return errors.New("--tls-client contains an empty name; remove it, or the extra comma")
	default:
		return nil
	}
}

func (o *serveOptions) validateLimits() error {
	// More concurrent calls have no benefit.
	const mostCalls = 10000

	var errs []error

	if o.maxCalls <= 0 || o.maxCalls > mostCalls {
		errs = append(errs, fmt.Errorf("--max-concurrent-calls must be between 1 and %d", mostCalls))
	}

	if o.driver.Plugin.CreationTimeout <= 0 || o.driver.Machines.OrphanPeriod <= 0 {
		errs = append(errs, errors.New("--machine-creation-timeout and --machine-safety-orphan-vms-period must be greater than zero"))
	}

	if info, err := os.Stat(o.kubeconfigDir); o.kubeconfigDir != "" && (err != nil || !info.IsDir()) {
		errs = append(errs, fmt.Errorf("--kubeconfig-dir: folder %s does not exist; create it, or mount the Secret with the kubeconfigs there", o.kubeconfigDir))
	}

	if _, _, err := net.SplitHostPort(o.metricsAddress); err != nil {
		errs = append(errs, fmt.Errorf("--metrics-address: %w", err))
	}

	return errors.Join(errs...)
}
