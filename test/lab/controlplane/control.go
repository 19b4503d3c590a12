// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
)

// targetControllers are the controllers needed in a cluster with Nodes, Pods and Machines and
// simulated guests: those that maintain Nodes and pods, and those for the shoot owner's workloads.
const targetControllers = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
	"root-ca-certificate-publisher-controller,garbage-collector-controller,node-lifecycle-controller," +
	"taint-eviction-controller,pod-garbage-collector-controller,disruption-controller," +
	"replicaset-controller"

// volumeControllers are the controllers of a shoot's kube-controller-manager for volumes of a CSI driver.
const volumeControllers = ",persistentvolume-binder-controller,persistentvolume-attach-detach-controller," +
	"persistentvolume-expander-controller,persistentvolume-protection-controller,persistentvolumeclaim-protection-controller"

func (o Options) targetControllers() string {
	if o.Kubelets == nil {
		return targetControllers
	}
	return targetControllers + joinControllers
}

// target is the name of the separate cluster for the Nodes.
const target = "target"

// StartControl starts the cluster that holds Machines and, unless another one is started, also
// serves as the target, which holds Nodes.
func StartControl(ctx context.Context, o Options) (*Cluster, error) {
	return startTarget(ctx, "control", o, o.targetControllers())
}

// StartTarget starts a separate cluster for the Nodes. Like the API server of a shoot, it accepts the
// tokens that gardener-resource-manager requests, and its kube-controller-manager has the controllers for volumes.
func StartTarget(ctx context.Context, o Options) (*Cluster, error) {
	return startTarget(ctx, target, o, o.targetControllers()+volumeControllers, "--api-audiences="+issuer+",gardener")
}

func startTarget(ctx context.Context, name string, o Options, controllers string, apiServerArgs ...string) (*Cluster, error) {
	c, err := newCluster(name, o, scheduler)
	if err != nil {
		return nil, err
	}
	if err := c.startAPI(ctx, apiServerArgs...); err != nil {
		return nil, err
	}
	definitions, err := readFolder(o.Binaries.MCMCRDs)
	if err != nil {
		return nil, err
	}
	if err := c.apply(ctx, definitions); err != nil {
		return nil, err
	}
	err = Together(ctx, func(ctx context.Context) error {
		return c.runControllerManager(ctx, controllers)
	}, c.runScheduler, c.admitKubelets)
	if err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", c.Name, err)
	}
	return c, nil
}
