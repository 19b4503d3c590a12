// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	machinescheme "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/scheme"
	machinev1alpha1client "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineaddress"
)

const (
	// component is the source of the driver's Events.
	component = "machine-controller-manager-provider-kubevirt"
	// listingDelay is long enough to collect the listings of all classes, which
	// machine-controller-manager requests one after the other.
	listingDelay = 5 * time.Second
	// comparePeriod is the minimum interval between comparisons of listings with all Machines:
	// every deletion of a machine causes a listing.
	comparePeriod = time.Minute
)

// controlCluster is the driver's own access to the control cluster.
type controlCluster struct {
	server *mcmoptions.MCServer
	config *rest.Config
}

func newControlCluster(server *mcmoptions.MCServer) (*controlCluster, error) {
	config, err := controlConfig(server)
	if err != nil {
		return nil, fmt.Errorf("read --control-kubeconfig: %w", err)
	}

	return &controlCluster{server: server, config: rest.AddUserAgent(config, component)}, nil
}

// controlConfig finds the control cluster as machine-controller-manager does
// (pkg/util/provider/app).
func controlConfig(server *mcmoptions.MCServer) (*rest.Config, error) {
	switch server.ControlKubeconfig {
	case "inClusterConfig":
		return rest.InClusterConfig()
	case "":
		return clientcmd.BuildConfigFromFlags("", server.TargetKubeconfig)
	default:
		return clientcmd.BuildConfigFromFlags("", server.ControlKubeconfig)
	}
}

// machinesClient returns a client for Machines.
func machinesClient(config *rest.Config) (machinev1alpha1client.MachineV1alpha1Interface, error) {
	client, err := machineclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client for Machines: %w", err)
	}

	return client.MachineV1alpha1(), nil
}

// addressRecorder returns the recorder of the addresses of VirtualMachines on Machines. It sends
// one request for each created machine, so it has the limits of machine-controller-manager's own
// requests.
func (c *controlCluster) addressRecorder() (*machineaddress.Recorder, error) {
	config := rest.CopyConfig(c.config)
	config.QPS = c.server.KubeAPIQPS
	config.Burst = int(c.server.KubeAPIBurst)

	machines, err := machinesClient(config)
	if err != nil {
		return nil, err
	}

	return machineaddress.New(machineaddress.Options{
		Machines:  machines,
		Namespace: c.server.Namespace,
		Delay:     listingDelay,
		Period:    comparePeriod,
	}), nil
}

// eventRecorder returns a recorder of Events on Machines.
func (c *controlCluster) eventRecorder() (record.EventRecorder, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("create client for Events: %w", err)
	}

	scheme := runtime.NewScheme()
	if err := machinescheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the types of machine-controller-manager: %w", err)
	}

	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})

	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), nil
}
