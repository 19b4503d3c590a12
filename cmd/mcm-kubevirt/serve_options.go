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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
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
	driver          *driveroptions.Options
}

// newServeOptions returns the defaults. Flags of machine-controller-manager have its defaults.
func newServeOptions() *serveOptions {
	return &serveOptions{
		listen:          "unix:///run/mcm-kubevirt/driver.sock",
		metricsAddress:  "127.0.0.1:10261",
		maxCalls:        200,
		creationTimeout: 20 * time.Minute,
		orphanPeriod:    15 * time.Minute,
		driver:          driveroptions.New(),
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
	flags.DurationVar(&o.creationTimeout, "machine-creation-timeout", o.creationTimeout,
		"Time after which the machine controller replaces a machine that has not joined; set it to the value of the machine controller's flag.")
	flags.DurationVar(&o.orphanPeriod, "machine-safety-orphan-vms-period", o.orphanPeriod,
		"Period of the machine controller's search for orphans; set it to the value of the machine controller's flag.")
	flags.BoolVar(&o.noTarget, "without-target-cluster", false,
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

	if o.creationTimeout <= 0 || o.orphanPeriod <= 0 {
		errs = append(errs, errors.New("--machine-creation-timeout and --machine-safety-orphan-vms-period must be greater than zero"))
	}

	if _, _, err := net.SplitHostPort(o.metricsAddress); err != nil {
		errs = append(errs, fmt.Errorf("--metrics-address: %w", err))
	}

	return errors.Join(errs...)
}

func (o *serveOptions) controller() driveroptions.Controller {
	return driveroptions.Controller{
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
