package main

import (
	"fmt"

	machinescheme "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/scheme"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// component is what the driver's Events name as their source.
const component = "machine-controller-manager-provider-kubevirt"

// eventRecorder returns a recorder of Events on Machines, in the control cluster.
func eventRecorder(server *mcmoptions.MCServer) (record.EventRecorder, error) {
	config, err := controlConfig(server)
	if err != nil {
		return nil, err
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster: %w", err)
	}

	scheme := runtime.NewScheme()
	if err := machinescheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("learn the types of machine-controller-manager: %w", err)
	}

	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})

	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), nil
}
