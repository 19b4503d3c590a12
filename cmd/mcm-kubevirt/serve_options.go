package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/component-base/logs"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/cmd/internal/driverflags"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// serveOptions specify the address, the clients and the driver.
type serveOptions struct {
	listen         string
	endpoint       driverrpc.Endpoint
	files          driverrpc.Files
	clients        []string
	metricsAddress string
	maxCalls       int
	kubeconfigDir  string

	creationTimeout time.Duration
	orphanPeriod    time.Duration
	noTarget        bool
	driver          *driverflags.Options
}

// newServeOptions returns the defaults. Flags that
// machine-controller-manager has too have its defaults.
func newServeOptions() *serveOptions {
	return &serveOptions{
		listen:          "unix:///run/mcm-kubevirt/driver.sock",
		metricsAddress:  "127.0.0.1:10261",
		maxCalls:        200,
		creationTimeout: 20 * time.Minute,
		orphanPeriod:    15 * time.Minute,
		driver:          driverflags.New(),
	}
}

func (o *serveOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", o.listen, "Where to serve: unix:///path/of/socket or tcp://address:port.")
	flags.StringVar(&o.files.Certificate, "tls-cert", "", "File with the server's certificate, in PEM. Over TCP only.")
	flags.StringVar(&o.files.Key, "tls-key", "", "File with the private key of --tls-cert, in PEM.")
	flags.StringVar(&o.files.Authorities, "tls-client-ca", "", "File with the certificates of who may have issued the clients', in PEM.")
	flags.StringSliceVar(&o.clients, "tls-client", nil,
		"Name of a client that is served: its certificate's common name, or a DNS name or URI in it. May be repeated.")
	flags.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "Where to serve /metrics and /healthz over plain HTTP.")
	flags.IntVar(&o.maxCalls, "max-concurrent-calls", o.maxCalls,
		"How many calls run at a time, over TCP half of them for one client; others wait. "+
			"One machine controller makes up to 101 calls at a time. Of the calls that wait for a "+
			"machine to be scheduled, half as many do.")
	flags.StringVar(&o.kubeconfigDir, "kubeconfig-dir", "",
		"Folder with a kubeconfig per cluster, in a file with the cluster's name: the value of the tag mcm.gardener.cloud/cluster. Requests "+
			"that bring a kubeconfig are then refused. Empty: requests bring it.")
	flags.DurationVar(&o.creationTimeout, "machine-creation-timeout", o.creationTimeout,
		"How long a machine may take until the machine controller replaces it: its flag of the same name.")
	flags.DurationVar(&o.orphanPeriod, "machine-safety-orphan-vms-period", o.orphanPeriod,
		"How often the machine controller looks for orphans: its flag of the same name.")
	flags.BoolVar(&o.noTarget, "without-target-cluster", false,
		"The machine controller runs with --target-kubeconfig=none: a machine is scheduled only when it has an address.")
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
		return errors.New("--tls-* are for --listen=tcp://… only: a socket is its owner's alone")
	case !o.endpoint.Local() && !complete:
		return errors.New("--listen=tcp://… needs --tls-cert, --tls-key, --tls-client-ca and --tls-client")
	case slices.Contains(o.clients, ""):
		return errors.New("--tls-client has an empty name: remove it, or the comma too many")
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

	if o.creationTimeout <= 0 || o.orphanPeriod <= 0 {
		errs = append(errs, errors.New("--machine-creation-timeout and --machine-safety-orphan-vms-period must be greater than zero"))
	}

	if _, _, err := net.SplitHostPort(o.metricsAddress); err != nil {
		errs = append(errs, fmt.Errorf("--metrics-address: %w", err))
	}

	return errors.Join(errs...)
}

func (o *serveOptions) controller() driverflags.Controller {
	return driverflags.Controller{
		CreationTimeout: o.creationTimeout,
		OrphanPeriod:    o.orphanPeriod,
		Workers:         o.maxCalls,
		NoTarget:        o.noTarget,
	}
}

func (o *serveOptions) credentials() (credentials.TransportCredentials, error) {
	if o.endpoint.Local() {
		return insecure.NewCredentials(), nil
	}

	return driverrpc.ServerCredentials(o.files, o.clients)
}

func (o *serveOptions) withKubeconfigs(d driver.Driver) driver.Driver {
	if o.kubeconfigDir == "" {
		return d
	}

	return kubevirt.WithKubeconfigs(d, kubeconfig.Folder(o.kubeconfigDir))
}
