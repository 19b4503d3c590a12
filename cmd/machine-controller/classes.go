package main

import (
	"context"
	"fmt"

	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classTracker returns what keeps golden images as the MachineClasses in the control cluster say.
func classTracker(server *mcmoptions.MCServer, images spi.GoldenImages, allowed validation.Options) (*machineclass.Tracker, error) {
	control, err := controlCluster(server)
	if err != nil {
		return nil, err
	}

	return machineclass.NewTracker(machineclass.Options{ControlCluster: control, Images: images, Allowed: allowed}), nil
}

// classReporter returns what tells a driver elsewhere which MachineClasses are gone.
func classReporter(server *mcmoptions.MCServer, remote driver.Driver) (*machineclass.Reporter, error) {
	control, err := controlCluster(server)
	if err != nil {
		return nil, err
	}

	return machineclass.NewReporter(machineclass.ReporterOptions{ControlCluster: control, Driver: remote}), nil
}

func controlCluster(server *mcmoptions.MCServer) (machineclass.ControlCluster, error) {
	config, err := controlConfig(server)
	if err != nil {
		return machineclass.ControlCluster{}, err
	}

	machines, err := mcmclient.NewForConfig(config)
	if err != nil {
		return machineclass.ControlCluster{}, fmt.Errorf("make client of the control cluster's MachineClasses: %w", err)
	}

	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return machineclass.ControlCluster{}, fmt.Errorf("make client of the control cluster: %w", err)
	}

	return machineclass.ControlCluster{Machines: machines, Secrets: core, Namespace: server.Namespace}, nil
}

// observed is a driver of which an observer is told whose machines it lists. Other calls need no telling: machine-controller-manager
// lists the machines of every class as soon as it leads, and at least once in each orphan period.
type observed struct {
	driver.Driver

	observer kubevirt.Observer
}

// ListMachines implements driver.Driver.
func (o *observed) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	o.observer.Seen(req.MachineClass, req.Secret)

	return o.Driver.ListMachines(ctx, req)
}
