// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/constants"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// options are the flags in addition to machine-controller-manager's: the address of a remote
// driver, and the options of a driver in this process.
type options struct {
	version    bool
	remote     remoteOptions
	driver     *driveroptions.Options
	evacuation evacuationOptions
	// driverFlags and evacuationFlags are those of driver and evacuation.
	driverFlags, evacuationFlags *pflag.FlagSet
}

func newOptions() *options {
	return &options{
		driver:          driveroptions.New(),
		driverFlags:     pflag.NewFlagSet("driver", pflag.ContinueOnError),
		evacuation:      newEvacuationOptions(),
		evacuationFlags: pflag.NewFlagSet("evacuation", pflag.ContinueOnError),
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.version, "version", false, "Print the version and the commit, and exit.")
	o.driver.AddFlags(o.driverFlags)
	fs.AddFlagSet(o.driverFlags)
	o.evacuation.addFlags(o.evacuationFlags)
	fs.AddFlagSet(o.evacuationFlags)
	o.remote.addFlags(fs)
}

func (o *options) validate() error {
	if o.remote.endpoint == "" {
		return errors.Join(o.driver.Validate(), o.evacuation.validate(), o.remote.requireNone())
	}

	return errors.Join(o.remote.validate(),
		requireNone(o.driverFlags, "has no effect with --driver-endpoint; set it on mcm-kubevirt serve"),
		requireNone(o.evacuationFlags, "requires the driver in this process; remove it or --driver-endpoint"))
}

// requireNone returns an error with the reason for each flag that is set.
func requireNone(flags *pflag.FlagSet, reason string) error {
	var errs []error

	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			errs = append(errs, fmt.Errorf("--%s %s", f.Name, reason))
		}
	})

	return errors.Join(errs...)
}

// describeController sets the driver's options that machine-controller-manager's flags determine.
func (o *options) describeController(server *mcmoptions.MCServer) {
	o.driver.Plugin.CreationTimeout = server.SafetyOptions.MachineCreationTimeout.Duration
	o.driver.Plugin.Allowed.Evacuation = o.evacuation.enabled
	o.driver.Machines.OrphanPeriod = server.SafetyOptions.MachineSafetyOrphanVMsPeriod.Duration
	o.driver.Machines.Workers = int(server.ConcurrentNodeSyncs)
	o.driver.Machines.NeedAddress = server.TargetKubeconfig == constants.TargetKubeconfigDisabledValue
}

// remoteOptions are the address and the credentials of a driver over gRPC.
type remoteOptions struct {
	endpoint   string
	serverName string
	files      driverrpc.Files
}

func (o *remoteOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.endpoint, "driver-endpoint", "",
		"Address of a driver over gRPC (mcm-kubevirt serve), unix:///path/of/socket or dns:///host:port; set it if this process cannot connect to "+
			"the provider cluster, or must not have its credentials. Empty: the driver runs in this process.")
	fs.StringVar(&o.files.Certificate, "driver-tls-cert", "", "File with the client certificate for the driver, in PEM; required with a dns:/// endpoint, and only allowed there.")
	fs.StringVar(&o.files.Key, "driver-tls-key", "", "File with the private key of --driver-tls-cert, in PEM; required with a dns:/// endpoint, and only allowed there.")
	fs.StringVar(&o.files.Authorities, "driver-tls-ca", "", "File with the CA certificates that the driver's certificate is verified against, in PEM; required with a dns:/// endpoint, and only "+
		"allowed there.")
	fs.StringVar(&o.serverName, "driver-tls-server-name", "",
		"Name in the driver's certificate; set it if that differs from the host of --driver-endpoint.")
}

// local reports whether the driver listens on a socket, which only its owner can connect to.
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
		return errors.New("--driver-endpoint with dns:/// requires --driver-tls-cert, --driver-tls-key and --driver-tls-ca")
	default:
		return nil
	}
}

// requireNone returns an error if certificates are set that would not be used.
func (o *remoteOptions) requireNone() error {
	if o.files != (driverrpc.Files{}) || o.serverName != "" {
		return errors.New("--driver-tls-* are only allowed with a dns:/// endpoint; remove them")
	}

	return nil
}

func (o *remoteOptions) client() (*driverrpc.Client, error) {
	if o.local() {
		return driverrpc.NewClient(o.endpoint, insecure.NewCredentials())
	}

	credentials, err := driverrpc.ClientCredentials(o.files, o.serverName)
	if err != nil {
		return nil, err
	}

	return driverrpc.NewClient(o.endpoint, credentials)
}
