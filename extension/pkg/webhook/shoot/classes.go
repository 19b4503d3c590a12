// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

const (
	// validity is the time for which the StorageClasses of a shoot, or the failure to read them, are
	// remembered: users of a shoot can change PersistentVolumes as fast as they like.
	validity = 10 * time.Second
	// atMost is the number of API servers whose StorageClasses are remembered.
	atMost = 1000
	// readTimeout ends reads of a seed that does not respond. The API servers of the shoots wait as long.
	readTimeout = timeoutSeconds * time.Second
)

// classes knows the zones of the StorageClasses of the shoots.
type classes struct {
	seed client.Reader
	log  logr.Logger
	// known has the zones by StorageClass, by the address of an API server; nil if they could not be read.
	known *cache.LRUExpireCache
	// reads lets requests from one address share a read.
	reads singleflight.Group
}

func newClasses(seed client.Reader, log logr.Logger) *classes {
	return &classes{seed: seed, log: log, known: cache.NewLRUExpireCache(atMost)}
}

// zonesOf returns the zones of a StorageClass in the shoot whose API server sent the request; none if
// its volumes are available in all zones, if the CloudProfile does not have the class, or if it cannot
// be read.
func (c *classes) zonesOf(ctx context.Context, class string) []string {
	remote, _ := ctx.Value(extensionswebhook.RemoteAddrContextKey{}).(string)

	sender, err := netip.ParseAddrPort(remote)
	if err != nil {
		c.log.Error(err, "Failed to parse the address of the sender; PersistentVolumes have no node affinity")

		return nil
	}

	address := sender.Addr().Unmap().String()
	// The read goes on if the request ends: others wait for it, too.
	ctx = context.WithoutCancel(ctx)

	zones, _, _ := c.reads.Do(address, func() (any, error) { return c.remembered(ctx, address), nil }) // It has no error.
	known, _ := zones.(map[string][]string)

	return known[class]
}

// remembered returns the zones by StorageClass, and reads them at most once per validity, since failed
// reads cost the seed as much as others. It logs their errors once, too.
func (c *classes) remembered(ctx context.Context, address string) any {
	if known, found := c.known.Get(address); found {
		return known
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	zones, err := c.read(ctx, address)
	if err != nil {
		c.log.Error(err, "Failed to get the zones of the StorageClasses; PersistentVolumes have no node affinity", "address", address)
	}

	c.known.Add(address, zones, validity)

	return zones
}

// read returns the zones by StorageClass in the shoot whose API server has the address.
func (c *classes) read(ctx context.Context, address string) (map[string][]string, error) {
	namespace, err := c.namespaceOf(ctx, address)
	if err != nil {
		return nil, err
	}

	cluster, err := extensionscontroller.GetCluster(ctx, c.seed, namespace)
	if err != nil {
		return nil, fmt.Errorf("get Cluster: %w", err)
	}

	if cluster.CloudProfile == nil {
		return nil, fmt.Errorf("the Cluster %s has no CloudProfile", namespace)
	}

	profile := &api.CloudProfileConfig{}
	if errs := api.Decode(cluster.CloudProfile.Spec.ProviderConfig, field.NewPath("CloudProfile", "spec", "providerConfig"), profile); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}

	zones := map[string][]string{}

	for _, class := range profile.VolumeClasses {
		if class.ExposeAs != "" {
			zones[class.ExposeAs] = class.Zones
		}
	}

	return zones, nil
}

// namespaceOf returns the namespace of the kube-apiserver with the address. The function of Gardener's
// library with this purpose reads the kube-apiservers of all shoots, and no IPv6 addresses.
func (c *classes) namespaceOf(ctx context.Context, address string) (string, error) {
	pods := &corev1.PodList{}
	if err := c.seed.List(ctx, pods,
		client.MatchingFields{"status.podIP": address},
		client.MatchingLabels{v1beta1constants.LabelApp: v1beta1constants.LabelKubernetes, v1beta1constants.LabelRole: v1beta1constants.LabelAPIServer},
	); err != nil {
		return "", fmt.Errorf("list the kube-apiserver with the address of the sender: %w", err)
	}

	namespace := ""

	for _, pod := range pods.Items {
		switch {
		case pod.Status.Phase != corev1.PodRunning: // An ended pod keeps its address in its status.
		case namespace != "":
			return "", errors.New("several kube-apiservers have the address of the sender")
		default:
			namespace = pod.Namespace
		}
	}

	if namespace == "" {
		return "", errors.New("no kube-apiserver has the address of the sender")
	}

	return namespace, nil
}
