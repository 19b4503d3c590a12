// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"maps"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	"github.com/gardener/gardener/extensions/pkg/controller/worker/genericactuator"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	extensionsv1alpha1helper "github.com/gardener/gardener/pkg/api/extensions/v1alpha1/helper"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// objects contains the objects that are generated from a Worker.
type objects struct {
	deployments worker.MachineDeployments
	classes     []class
	images      []api.MachineImage
	// notMigratable are the pools whose machines cannot be live-migrated.
	notMigratable []api.NotMigratablePool
	// size is the size of the classes: see workerpool.ValidateClassSize.
	size int
}

// GenerateMachineDeployments implements genericactuator.WorkerDelegate.
func (d *delegate) GenerateMachineDeployments(ctx context.Context) (worker.MachineDeployments, error) {
	w, err := d.generated(ctx)
	if err != nil {
		return nil, err
	}

	return w.deployments, nil
}

// generated returns the objects of the Worker: one MachineDeployment and one MachineClass per pool and
// zone. It reports the errors of all pools at once.
func (d *delegate) generated(ctx context.Context) (*objects, error) {
	if d.desired != nil {
		return d.desired, nil
	}

	namespace, err := d.namespace(ctx)
	if err != nil {
		return nil, err
	}

	w := &objects{}

	errs, err := d.addPools(ctx, w, namespace)
	if err != nil {
		return nil, err
	}

	if err := errorcodes.OfConfiguration(errs); err != nil && !d.deleting() {
		return nil, err
	}

	d.desired = w

	return w, nil
}

// addPools adds the objects of all pools. It returns the errors of all pools, unless there are too many
// objects for the memory of the extension.
func (d *delegate) addPools(ctx context.Context, w *objects, namespace string) (errs field.ErrorList, _ error) {
	zones := 0
	for i := range d.worker.Spec.Pools {
		zones += len(d.worker.Spec.Pools[i].Zones)
	}

	if tooMany := workerpool.ValidateClassCount(zones); len(tooMany) > 0 {
		return tooMany, nil
	}

	for _, spec := range d.worker.Spec.Pools {
		p, invalid, err := d.newPool(ctx, spec)
		if err != nil {
			return nil, err
		}

		refused, err := d.validateAnnotations(ctx, p)
		if err != nil {
			return nil, err
		}

		invalid = append(invalid, refused...)

		if len(invalid) == 0 {
			if invalid, err = d.addPool(w, p, namespace); err != nil {
				return nil, err
			}
		}

		errs = append(errs, invalid...)

		if tooLarge := workerpool.ValidateClassSize(w.size); len(tooLarge) > 0 {
			return append(errs, tooLarge...), nil
		}
	}

	return errs, nil
}

// addPool adds the objects of a pool.
func (d *delegate) addPool(w *objects, p *pool, namespace string) (field.ErrorList, error) {
	w.images = appendImage(w.images, p.Image)

	if obstacle := p.NotMigratable(); obstacle != nil {
		w.notMigratable = append(w.notMigratable, *obstacle)
	}

	var errs field.ErrorList

	for i, zone := range p.Zones {
		hash, err := d.hashOf(p, zone)
		if err != nil {
			return nil, err
		}

		deployment := d.deploymentOf(p, int32(i), zone, hash, namespace)

		class, invalid := d.classOf(p, i, deployment.ClassName)
		if len(invalid) > 0 {
			errs = append(errs, invalid...)

			continue
		}

		if w.size += p.ClassSize(class.object.ProviderSpec.Raw); len(workerpool.ValidateClassSize(w.size)) > 0 {
			break // addPools reports it.
		}

		w.deployments, w.classes = append(w.deployments, deployment), append(w.classes, class)
	}

	return errs, nil
}

// deploymentOf returns the MachineDeployment of a pool in its i-th zone.
func (d *delegate) deploymentOf(p *pool, i int32, zone, hash, namespace string) worker.MachineDeployment {
	var (
		name  = fmt.Sprintf("%s-%s-z%d", d.cluster.Shoot.Status.TechnicalID, p.Name, i+1)
		zones = int32(len(p.Zones)) //nolint:gosec // A pool has few zones.
	)

	annotations := map[string]string{}
	maps.Copy(annotations, p.Annotations)
	annotations[kubevirt.AnnotationNamespace] = namespace

	deployment := worker.MachineDeployment{
		Name:                         name,
		PoolName:                     p.Name,
		ClassName:                    name + "-" + hash,
		SecretName:                   name + "-" + hash,
		Minimum:                      worker.DistributeOverZones(i, p.Minimum, zones),
		Maximum:                      worker.DistributeOverZones(i, p.Maximum, zones),
		Priority:                     p.Priority,
		Strategy:                     p.strategy(i, zones),
		Labels:                       d.nodeLabels(p, zone),
		Annotations:                  annotations,
		Taints:                       p.Taints,
		MachineConfiguration:         genericactuator.ReadMachineConfiguration(p.WorkerPool),
		ClusterAutoscalerAnnotations: extensionsv1alpha1helper.GetMachineDeploymentClusterAutoscalerAnnotations(p.ClusterAutoscaler),
	}

	if settings := p.MachineControllerManagerSettings; settings != nil {
		deployment.AutoPreserveFailedMachineMax = worker.DistributeOverZones(i, ptr.Deref(settings.AutoPreserveFailedMachineMax, 0), zones)
	}

	return deployment
}

// nodeLabels returns the labels of the Nodes of a pool in a zone. cloud-controller-manager does not set
// those of the topology: it would need to read the Nodes of the provider cluster.
func (d *delegate) nodeLabels(p *pool, zone string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, p.Labels)

	for label, value := range map[string]string{corev1.LabelTopologyRegion: d.worker.Spec.Region, corev1.LabelTopologyZone: zone} {
		if value != providerspec.AnyTopology {
			labels[label] = value
		}
	}

	return labels
}

// strategy returns how machines are updated in the i-th zone.
func (p *pool) strategy(i, zones int32) machinev1alpha1.MachineDeploymentStrategy {
	update := machinev1alpha1.UpdateConfiguration{
		MaxSurge:       ptr.To(worker.DistributePositiveIntOrPercent(i, p.MaxSurge, zones, p.Maximum)),
		MaxUnavailable: ptr.To(worker.DistributePositiveIntOrPercent(i, p.MaxUnavailable, zones, p.Minimum)),
	}

	if !v1beta1helper.IsUpdateStrategyInPlace(p.UpdateStrategy) {
		return machinev1alpha1.MachineDeploymentStrategy{
			Type:          machinev1alpha1.RollingUpdateMachineDeploymentStrategyType,
			RollingUpdate: &machinev1alpha1.RollingUpdateMachineDeployment{UpdateConfiguration: update},
		}
	}

	orchestration := machinev1alpha1.OrchestrationTypeAuto
	if v1beta1helper.IsUpdateStrategyManualInPlace(p.UpdateStrategy) {
		orchestration = machinev1alpha1.OrchestrationTypeManual
	}

	return machinev1alpha1.MachineDeploymentStrategy{
		Type:          machinev1alpha1.InPlaceUpdateMachineDeploymentStrategyType,
		InPlaceUpdate: &machinev1alpha1.InPlaceUpdateMachineDeployment{UpdateConfiguration: update, OrchestrationType: orchestration},
	}
}
