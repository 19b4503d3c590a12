package main

import (
	"fmt"
	"time"

	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineaddress"
)

const (
	// listingDelay lets the listings of all classes come together, which machine-controller-manager makes one after the other.
	listingDelay = 5 * time.Second
	// comparePeriod spaces comparisons with all Machines: they are listed after every deletion of one.
	comparePeriod = time.Minute
)

// addressRecorder returns what records on Machines where their VirtualMachines are. One request per machine that is created: the limits are
// those of machine-controller-manager's own requests for it.
func addressRecorder(server *mcmoptions.MCServer) (*machineaddress.Recorder, error) {
	config, err := controlConfig(server)
	if err != nil {
		return nil, err
	}

	config.QPS, config.Burst = server.KubeAPIQPS, int(server.KubeAPIBurst)

	client, err := machineclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster's Machines: %w", err)
	}

	return machineaddress.New(machineaddress.Options{
		Machines: client.MachineV1alpha1(), Namespace: server.Namespace, Delay: listingDelay, Period: comparePeriod,
	}), nil
}
