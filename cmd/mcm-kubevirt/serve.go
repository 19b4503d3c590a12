package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

const (
	// finishTime is how long active calls may take to end after the process is asked to stop, and
	// stopTime bounds the whole shutdown. Clients repeat the calls that are cut off.
	finishTime = time.Second
	stopTime   = 2500 * time.Millisecond
)

func serveCommand() *cobra.Command {
	o := newServeOptions()

	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the driver over gRPC",
		Long: `Runs the driver for machine controllers in other processes: machine-controller --driver-endpoint, or any client of
api/driver/v1/driver.proto. Only processes of the same user can connect to a unix socket. Over TCP, server and clients authenticate each
other with certificates, and only the clients named by --tls-client are served; the files can be replaced at any time. See
` + docsURL + `grpc.md.
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

	metrics, err := listenForMetrics(ctx, o.metricsAddress, registry)
	if err != nil {
		return err
	}

	listener, err := o.endpoint.Listen(ctx)
	if err != nil {
		return errors.Join(err, metrics.Close())
	}

	return serve(ctx, server, listener, metrics)
}

func (o *serveOptions) server(registry prometheus.Registerer) (*driverrpc.Server, error) {
	provider, err := o.driver.Provider(o.controller(), registry)
	if err != nil {
		return nil, err
	}

	plugin, err := o.driver.Plugin(o.controller(), provider, registry)
	if err != nil {
		return nil, err
	}

	credentials, err := o.credentials()
	if err != nil {
		return nil, err
	}

	return driverrpc.NewServer(o.withKubeconfigs(plugin), driverrpc.ServerOptions{
		Info:        driverrpc.Info{Name: machineclass.Provider, Version: driveroptions.Release()},
		Credentials: credentials,
		MaxCalls:    o.maxCalls,
		Metrics:     registry,
	})
}

// serve runs both servers until one of them fails, or ctx is done.
func serve(ctx context.Context, server *driverrpc.Server, listener net.Listener, metrics *metricsServer) error {
	ended := make(chan error, 2)

	go func() { ended <- server.Serve(listener) }()
	go func() { ended <- metrics.Serve() }()

	klog.InfoS("Serving", "version", driveroptions.Release(), "address", listener.Addr(), "metrics", metrics.Addr())

	var failed error

	select {
	case failed = <-ended:
	case <-ctx.Done():
		klog.InfoS("Stopping")
	}

	return errors.Join(failed, stopServer(context.WithoutCancel(ctx), server), metrics.Close())
}

// stopServer shuts the server down gracefully, but no longer
// than stopTime, since the process ends then.
func stopServer(ctx context.Context, server *driverrpc.Server) error {
	finish, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()

	limit, cancelLimit := context.WithTimeout(ctx, stopTime)
	defer cancelLimit()

	stopped := make(chan struct{})

	go func() {
		server.Stop(finish)
		close(stopped)
	}()

	select {
	case <-stopped:
		return nil
	case <-limit.Done():
		return fmt.Errorf("calls did not end within %s", stopTime)
	}
}
