package main

import (
	"fmt"

	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classTracker returns what keeps golden images as the MachineClasses in the control cluster say.
func classTracker(server *mcmoptions.MCServer, images spi.GoldenImages, allowed validation.Options) (*machineclass.Tracker, error) {
	config, err := controlConfig(server)
	if err != nil {
		return nil, fmt.Errorf("read --control-kubeconfig: %w", err)
	}

	config = rest.AddUserAgent(config, component)

	machines, err := mcmclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster's MachineClasses: %w", err)
	}

	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster: %w", err)
	}

	return machineclass.NewTracker(machineclass.Options{
		Machines: machines, Secrets: core, Namespace: server.Namespace, Images: images, Allowed: allowed,
	}), nil
}
