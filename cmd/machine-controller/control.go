package main

import (
	"fmt"

	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// controlConfig says how the driver's own clients reach the control cluster.
func controlConfig(server *mcmoptions.MCServer) (*rest.Config, error) {
	config, err := findControlConfig(server)
	if err != nil {
		return nil, fmt.Errorf("read --control-kubeconfig: %w", err)
	}

	return rest.AddUserAgent(config, component), nil
}

// findControlConfig finds the control cluster as machine-controller-manager does (pkg/util/provider/app).
func findControlConfig(server *mcmoptions.MCServer) (*rest.Config, error) {
	switch server.ControlKubeconfig {
	case "inClusterConfig":
		return rest.InClusterConfig()
	case "":
		return clientcmd.BuildConfigFromFlags("", server.TargetKubeconfig)
	default:
		return clientcmd.BuildConfigFromFlags("", server.ControlKubeconfig)
	}
}
