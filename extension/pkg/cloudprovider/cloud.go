// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudprovider connects Kubernetes' cloud controllers to a provider cluster with KubeVirt: Nodes
// are virtual machines, and Services of type LoadBalancer are Services of the provider cluster. Command
// kubevirt-cloud-controller-manager calls it. It must not know Gardener.
//
// The controllers of k8s.io/cloud-provider call it when an object of the shoot changes. When one of the
// provider cluster changes, the refresher of this package repeats the same steps: see refresher.go.
package cloudprovider

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// Name is the value of --cloud-provider, and the scheme of provider IDs.
const Name = "kubevirt"

// userAgent is the name of the program in the requests to provider clusters.
const userAgent = "kubevirt-cloud-controller-manager"

// Cloud implements cloudprovider.Interface and cloudprovider.InformerUser.
type Cloud struct {
	instances *instances     // nil if it is disabled
	balancers *loadBalancers // nil if it is disabled

	stop  <-chan struct{}
	shoot kubernetes.Interface
}

// New returns the Cloud of a cluster, whose name is that of --cluster-name. It connects to these servers only.
func New(config *Config, clusterName string, servers transport.Servers) (*Cloud, error) {
	if reasons := validation.IsValidLabelValue(clusterName); clusterName == "" || len(reasons) > 0 {
		return nil, fmt.Errorf("--cluster-name is %q; set it to the value of the label %s of the machines %s", clusterName, labelCluster, strings.Join(reasons, ", "))
	}

	source := connection.NewSource(connection.Beside(config.Kubeconfig), servers)

	namespace := config.Namespace
	if namespace == "" {
		to, err := source.Target()
		if err != nil {
			return nil, err
		}

		namespace = to.Namespace
	}

	// Each has requests of its own: Nodes do not wait for many load balancers.
	forNodes, err := providercluster.NewProgram(userAgent, namespace, source)
	if err != nil {
		return nil, fmt.Errorf("connect to the provider cluster: %w", err)
	}

	forServices, err := providercluster.NewProgram(userAgent, namespace, source)
	if err != nil {
		return nil, fmt.Errorf("connect to the provider cluster: %w", err)
	}

	c := &Cloud{}

	if config.InstancesV2.Enabled {
		c.instances = newInstances(config, clusterName, forNodes)
	}

	if config.LoadBalancer.Enabled {
		c.balancers = newLoadBalancers(config, clusterName, forServices)
	}

	return c, nil
}

// Initialize implements cloudprovider.Interface.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	c.shoot = clients.ClientOrDie(userAgent)
	c.stop = stop
}

// SetInformers implements cloudprovider.InformerUser. The factory is started afterwards.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	if c.balancers == nil {
		return
	}

	newRefresher(c.balancers, c.shoot, factory).start(c.stop)
}

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if c.balancers == nil {
		return nil, false
	}

	return c.balancers, true
}

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if c.instances == nil {
		return nil, false
	}

	return c.instances, true
}

// Instances implements cloudprovider.Interface: InstancesV2 replaces it.
func (*Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 replaces it.
func (*Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface: nothing calls it.
func (*Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface: the network plug-in of the shoot makes routes.
func (*Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName implements cloudprovider.Interface.
func (*Cloud) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (*Cloud) HasClusterID() bool { return true }
