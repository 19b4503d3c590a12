// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// running is what the machines of a shoot use already. A reconciliation does not check this again: if the
// provider cluster lost it, the machines still run, and the shoot must be reconciled nevertheless. The health
// check reports it. The zero value is a shoot without machines.
type running struct {
	// everything is set if nothing is new.
	everything bool
	// unrecorded is set if the shoot's shared networks may be in use, although nothing recorded them.
	unrecorded bool
	// hasClasses is set if the shoot has MachineClasses.
	hasClasses            bool
	storageClasses, zones sets.Set[string]
	// replicas are the desired machines of the pools, by name.
	replicas map[string]int32
}

// runningMachines reads what the Worker of a shoot generated.
func runningMachines(ctx context.Context, seed client.Reader, cluster *extensionscontroller.Cluster, namespace string) (*running, error) {
	classes := &machinev1alpha1.MachineClassList{}
	deployments := &machinev1alpha1.MachineDeploymentList{}

	for _, list := range []client.ObjectList{classes, deployments} {
		if err := seed.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list machine resources: %w", err)
		}
	}

	r := &running{
		hasClasses:     len(classes.Items) > 0,
		storageClasses: sets.New[string](),
		zones:          sets.New[string](),
		replicas:       map[string]int32{},
	}

	for i := range classes.Items {
		r.addClass(&classes.Items[i])
	}

	for i := range deployments.Items {
		spec := &deployments.Items[i].Spec
		r.replicas[spec.Template.Spec.NodeTemplateSpec.Labels[v1beta1constants.LabelWorkerPool]] += spec.Replicas
	}

	// A hibernated shoot has no replicas. When it wakes up, its machines are not new.
	r.everything = r.hasClasses && cluster.Shoot.Status.IsHibernated

	return r, nil
}

func (r *running) addClass(class *machinev1alpha1.MachineClass) {
	if class.NodeTemplate != nil {
		r.zones.Insert(class.NodeTemplate.Zone)
	}

	spec := &providerspec.ProviderSpec{}
	_ = json.Unmarshal(class.ProviderSpec.Raw, spec) // The extension wrote it.

	r.addVolume(&spec.RootVolume.DataVolume)

	for _, v := range spec.AdditionalVolumes {
		if v.DataVolume != nil {
			r.addVolume(v.DataVolume)
		}
	}
}

func (r *running) addVolume(v *providerspec.DataVolume) {
	if v.Storage != nil && v.Storage.StorageClassName != nil {
		r.storageClasses.Insert(*v.Storage.StorageClassName)
	}
}

func (r *running) usesStorageClass(name string) bool {
	return r.everything || r.storageClasses.Has(name)
}

func (r *running) usesZone(name string) bool { return r.everything || r.zones.Has(name) }

// hasMinimum reports whether each pool of a Shoot has the minimum of its machines.
func (r *running) hasMinimum(shoot *gardencorev1beta1.Shoot) bool {
	return r.everything || !slices.ContainsFunc(shoot.Spec.Provider.Workers, func(w gardencorev1beta1.Worker) bool {
		return r.replicas[w.Name] < w.Minimum
	})
}

// hasMachines reports whether the permissions and features that all machines need were there once.
func (r *running) hasMachines() bool { return r.everything || r.hasClasses }
