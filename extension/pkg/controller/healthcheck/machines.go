// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	// transient is the time for which a failure of a DataVolume counts as progressing: CDI retries
	// imports and clones, often successfully.
	transient = time.Minute
	// maxReported bounds the objects that a condition names.
	maxReported = 3
)

// machinesCheck checks that the provider cluster has the virtual machines of a Worker, and that CDI can
// create their disks and the golden images.
type machinesCheck struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*machinesCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck. A provider cluster that cannot be read is reported by
// providerClusterCheck; it says nothing about the nodes.
func (c *machinesCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()

	w := &extensionsv1alpha1.Worker{}
	if err := c.seed.Get(ctx, request, w); err != nil {
		return nil, fmt.Errorf("get Worker %s: %w", request, err)
	}

	shoot, err := c.shoot(ctx, request.Namespace)
	if err != nil {
		return nil, err
	}

	provider, err := c.newProviderCluster(ctx, c.seed, w.Spec.SecretRef)
	if err != nil {
		return healthy(), nil // see above
	}

	defer provider.Close()

	vanished, err := c.vanished(ctx, provider, request.Namespace, ownership.Of(shoot))
	if err != nil || len(vanished) > 0 {
		return resultOfMachines(vanished, provider.Namespace), err
	}

	return resultOf(read(ctx, provider, ownership.Of(shoot)).failing(), provider.Namespace), nil
}

// vanished returns the Machines whose virtual machine was deleted, as by hand: machine-controller-manager
// replaces them when their Nodes have not been Ready for a long time. It returns none if the provider
// cluster cannot be read.
func (c *machinesCheck) vanished(ctx context.Context, provider *providercluster.Cluster, namespace string, owner ownership.Owner) ([]string, error) {
	machines := &machinev1alpha1.MachineList{}
	if err := c.seed.List(ctx, machines, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}

	missing := sets.New[string]()

	for i := range machines.Items {
		// The driver sets the ID when it has created the virtual machine.
		if machine := &machines.Items[i]; machine.Spec.ProviderID != "" && machine.DeletionTimestamp == nil {
			missing.Insert(machine.Name)
		}
	}

	if len(missing) == 0 {
		return nil, nil
	}

	own := func(machine *metav1.PartialObjectMetadata) bool { return !owner.IsForeign(machine) }

	existing, err := provider.ListMetadata(ctx, kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachine"), own,
		client.InNamespace(provider.Namespace), client.MatchingLabels{providerspec.TagCluster: owner.TechnicalID})
	if err != nil {
		return nil, nil //nolint:nilerr // providerClusterCheck reports it.
	}

	for i := range existing {
		missing.Delete(existing[i].Name)
	}

	return c.withoutDeletion(ctx, namespace, sets.List(missing))
}

// withoutDeletion returns those Machines that machine-controller-manager has not begun to delete: their
// virtual machines may have been deleted in the meantime.
func (c *machinesCheck) withoutDeletion(ctx context.Context, namespace string, names []string) (remaining []string, _ error) {
	for _, name := range names {
		machine := &machinev1alpha1.Machine{}

		err := c.seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Machine %s: %w", name, err)
		}

		if err == nil && machine.DeletionTimestamp == nil {
			remaining = append(remaining, name)
		}
	}

	return remaining, nil
}

// resultOfMachines reports the Machines without a virtual machine.
func resultOfMachines(vanished []string, namespace string) *healthcheck.SingleCheckResult {
	return unhealthy(fmt.Errorf("%s: namespace %s of the provider cluster does not have the virtual machines of these Machines, which were deleted externally: %s; %s",
		reasons.MachineVanished, namespace, bounded(vanished, ", "), reasons.RemedyOf(reasons.MachineVanished)))
}

// bounded joins the first texts of a list, and counts the others.
func bounded(texts []string, separator string) string {
	reported := strings.Join(texts[:min(len(texts), maxReported)], separator)
	if more := len(texts) - maxReported; more > 0 {
		reported += fmt.Sprintf("%sand %d more", separator, more)
	}

	return reported
}

// shoot returns the Shoot from a Cluster.
func (c *machinesCheck) shoot(ctx context.Context, name string) (*gardencorev1beta1.Shoot, error) {
	cluster := &extensionsv1alpha1.Cluster{}
	if err := c.seed.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", name, err)
	}

	shoot, err := extensions.ShootFromCluster(cluster)
	if err == nil && shoot == nil {
		err = errors.New("it has no Shoot")
	}

	if err != nil {
		return nil, fmt.Errorf("read Cluster %s: %w", name, err)
	}

	return shoot, nil
}

// read returns the incomplete DataVolumes of a shoot. After an error, it returns those before it.
func read(ctx context.Context, provider *providercluster.Cluster, owner ownership.Owner) volumes {
	found, _ := providercluster.Collect(ctx, provider, &cdiv1beta1.DataVolumeList{}, func(dv *cdiv1beta1.DataVolume) (volume, bool) {
		return newVolume(dv), isIncomplete(dv, owner.TechnicalID) && !owner.IsForeign(dv)
	}, client.InNamespace(provider.Namespace), client.MatchingLabels{providerspec.TagCluster: owner.TechnicalID})

	return found
}

// resultOf returns the result for the failing DataVolumes of a namespace.
func resultOf(failing []string, namespace string) *healthcheck.SingleCheckResult {
	if len(failing) == 0 {
		return healthy()
	}

	token, _, _ := strings.Cut(failing[0], ": ")
	result := unhealthy(fmt.Errorf("DataVolumes in namespace %s of the provider cluster fail: %s; %s", namespace, bounded(failing, "; "), reasons.RemedyOf(token)))
	result.Status = gardencorev1beta1.ConditionProgressing
	result.ProgressingThreshold = ptr.To(transient)

	return result
}
