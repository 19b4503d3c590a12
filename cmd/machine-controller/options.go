package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/constants"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/cmd/internal/driverflags"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// options are the flags beside machine-controller-manager's: where the driver is, and what it is like if it is in this process.
type options struct {
	version    bool
	remote     remoteOptions
	plugin     *driverflags.Options
	evacuation evacuationOptions
	// pluginFlags and evacuationFlags are those of plugin and evacuation.
	pluginFlags, evacuationFlags *pflag.FlagSet
}

func newOptions() *options {
	return &options{
		plugin: driverflags.New(), pluginFlags: pflag.NewFlagSet("plugin", pflag.ContinueOnError),
		evacuation: newEvacuationOptions(), evacuationFlags: pflag.NewFlagSet("evacuation", pflag.ContinueOnError),
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.version, "version", false, "Print the version and the commit, and end.")
	o.plugin.AddFlags(o.pluginFlags)
	fs.AddFlagSet(o.pluginFlags)
	o.evacuation.addFlags(o.evacuationFlags)
	fs.AddFlagSet(o.evacuationFlags)
	o.remote.addFlags(fs)
}

func (o *options) validate() error {
	if o.remote.endpoint == "" {
		return errors.Join(o.plugin.Validate(), o.evacuation.validate(), o.remote.requireNone())
	}

	return errors.Join(o.remote.validate(),
		requireNone(o.pluginFlags, "has no effect with --driver-endpoint: set it on mcm-kubevirt serve"),
		requireNone(o.evacuationFlags, "needs the driver in this process: remove it or --driver-endpoint"))
}

// requireNone refuses flags that are set, and says why.
func requireNone(flags *pflag.FlagSet, why string) error {
	var errs []error

	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			errs = append(errs, fmt.Errorf("--%s %s", f.Name, why))
		}
	})

	return errors.Join(errs...)
}

// controllerOf says what the plugin has to know about the machine controller.
func controllerOf(server *mcmoptions.MCServer, own *options, events kubevirt.EventRecorder) driverflags.Controller {
	return driverflags.Controller{
		CreationTimeout: server.SafetyOptions.MachineCreationTimeout.Duration,
		OrphanPeriod:    server.SafetyOptions.MachineSafetyOrphanVMsPeriod.Duration,
		Workers:         int(server.ConcurrentNodeSyncs),
		NoTarget:        server.TargetKubeconfig == constants.TargetKubeconfigDisabledValue,
		Evacuation:      own.evacuation.enabled,
		Events:          events,
	}
}

// remoteOptions say where a driver over gRPC is, and how to reach it.
type remoteOptions struct {
	endpoint   string
	serverName string
	files      driverrpc.Files
}

func (o *remoteOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.endpoint, "driver-endpoint", "",
		"Where a driver over gRPC is, mcm-kubevirt serve: unix:///path/of/socket or dns:///host:port. Empty: the driver is in this process.")
	fs.StringVar(&o.files.Certificate, "driver-tls-cert", "", "File with the certificate that is shown to the driver, in PEM.")
	fs.StringVar(&o.files.Key, "driver-tls-key", "", "File with the private key of --driver-tls-cert, in PEM.")
	fs.StringVar(&o.files.Authorities, "driver-tls-ca", "", "File with the certificates of who may have issued the driver's, in PEM.")
	fs.StringVar(&o.serverName, "driver-tls-server-name", "",
		"The name that the driver's certificate must have. Empty: the host of --driver-endpoint.")
}

// local says whether the driver is reached over a socket, to which nobody else has access.
func (o *remoteOptions) local() bool {
	return strings.HasPrefix(o.endpoint, "unix:///")
}

func (o *remoteOptions) validate() error {
	switch {
	case o.local():
		return o.requireNone()
	case !strings.HasPrefix(o.endpoint, "dns:///"):
		return fmt.Errorf("--driver-endpoint %q must begin with unix:/// or dns:///", o.endpoint)
	case o.files.Certificate == "" || o.files.Key == "" || o.files.Authorities == "":
		return errors.New("--driver-endpoint with dns:/// needs --driver-tls-cert, --driver-tls-key and --driver-tls-ca")
	default:
		return nil
	}
}

// requireNone refuses certificates that nobody would be shown.
func (o *remoteOptions) requireNone() error {
	if o.files != (driverrpc.Files{}) || o.serverName != "" {
		return errors.New("--driver-tls-* are for a --driver-endpoint with dns:/// only")
	}

	return nil
}

func (o *remoteOptions) driver() (*driverrpc.Client, error) {
	if o.local() {
		return driverrpc.NewClient(o.endpoint, insecure.NewCredentials())
	}

	credentials, err := driverrpc.ClientCredentials(o.files, o.serverName)
	if err != nil {
		return nil, err
	}

	return driverrpc.NewClient(o.endpoint, credentials)
}
