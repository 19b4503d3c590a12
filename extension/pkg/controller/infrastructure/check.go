// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// fault is a reason for which the provider cluster cannot run the shoot.
type fault struct {
	code gardencorev1beta1.ErrorCode
	// path is the field of the Shoot that depends on it.
	path   *field.Path
	detail string
}

// errorOf returns the error of all faults; nil if there are none.
func errorOf(faults []fault) error {
	var (
		errs  []error
		codes []gardencorev1beta1.ErrorCode
	)

	for _, f := range faults {
		errs = append(errs, fmt.Errorf("%s: %s", f.path, f.detail))

		if !slices.Contains(codes, f.code) {
			codes = append(codes, f.code)
		}
	}

	if len(errs) == 0 {
		return nil
	}

	return v1beta1helper.NewErrorWithCodes(errors.Join(errs...), codes...)
}

// credentialsPath is the path of the credentials in the Shoot.
func credentialsPath() *field.Path { return field.NewPath("spec", "credentialsBindingName") }

// check returns an error if the provider cluster cannot run what is new in the shoot. It skips storage
// classes, nodes and quotas that it cannot read: these permissions are optional. For a hibernated shoot, it
// checks only APIs and permissions.
func (f *flow) check(ctx context.Context, region string, cluster *extensionscontroller.Cluster, r *running) error {
	if err := f.provider.CheckAPIs(ctx); err != nil {
		return fmt.Errorf("%s: %w", credentialsPath(), err) // Nothing else works.
	}

	var missing []fault

	if !r.hasMachines() {
		var err error
		if missing, err = f.checkPermissions(ctx); err != nil {
			return err
		}
	}

	if extensionscontroller.IsHibernationEnabled(cluster) {
		return errorOf(missing)
	}

	return f.result(append(missing, f.checkMachines(ctx, region, cluster, r)...))
}

// checkMachines checks what the machines of the shoot need, except for what they use already.
func (f *flow) checkMachines(ctx context.Context, region string, cluster *extensionscontroller.Cluster, r *running) []fault {
	pools := f.pools(cluster)
	faults := slices.Concat(f.checkStorageClasses(ctx, pools, r), f.checkZones(ctx, region, pools, r), f.checkBinding(ctx, r))

	if !r.hasMinimum(cluster.Shoot) {
		faults = append(faults, f.checkQuota(ctx, cluster.Shoot, pools)...)
	}

	if !r.hasMachines() {
		faults = append(faults, f.checkHotplug(ctx)...)
	}

	return faults
}

// pools resolves the worker pools of the Shoot. The Worker reports their errors.
func (f *flow) pools(cluster *extensionscontroller.Cluster) []*workerpool.Pool {
	settings := &workerpool.Settings{
		TechnicalID:   f.owner.TechnicalID,
		Region:        cluster.Shoot.Spec.Region,
		PodNetwork:    f.podNetwork(),
		Networks:      f.status.Networks,
		Profile:       &cluster.CloudProfile.Spec,
		ProfileConfig: &f.profile,
	}
	pools := make([]*workerpool.Pool, len(cluster.Shoot.Spec.Provider.Workers))

	for i := range pools {
		pools[i], _ = settings.Pool(workerpool.FromWorker(&cluster.Shoot.Spec.Provider.Workers[i]), workerPath(i))
	}

	return pools
}

// checkStorageClasses checks the storage classes of the volume types that the Shoot uses.
func (f *flow) checkStorageClasses(ctx context.Context, pools []*workerpool.Pool, r *running) []fault {
	var faults []fault

	checked := sets.New[string]()

	check := func(v *workerpool.Volume, path *field.Path) {
		if v.Type == nil || v.Class == nil || checked.Has(*v.Class) || r.usesStorageClass(*v.Class) {
			return
		}

		checked.Insert(*v.Class)

		if err := f.note(f.provider.Get(ctx, client.ObjectKey{Name: *v.Class}, &storagev1.StorageClass{})); apierrors.IsNotFound(err) {
			faults = append(faults, fault{gardencorev1beta1.ErrorRetryableConfigurationProblem, path.Child("type"), fmt.Sprintf(
				"the provider cluster has no StorageClass %s, which the CloudProfile names for the type %s; create it, or correct the CloudProfile", *v.Class, *v.Type)})
		}
	}

	for i, pool := range pools {
		check(&pool.Root, workerPath(i).Child("volume"))

		for j := range pool.Data {
			check(&pool.Data[j], workerPath(i).Child("dataVolumes").Index(j))
		}
	}

	return faults
}

func workerPath(i int) *field.Path { return field.NewPath("spec", "provider", "workers").Index(i) }

// checkZones checks that each zone has a provider node.
func (f *flow) checkZones(ctx context.Context, region string, pools []*workerpool.Pool, r *running) []fault {
	var faults []fault

	checked := sets.New[string]()

	for i, pool := range pools {
		for j, zone := range pool.Zones {
			if checked.Has(zone) || r.usesZone(zone) {
				continue
			}

			checked.Insert(zone)

			nodes := &corev1.NodeList{}
			if err := f.note(f.provider.List(ctx, nodes, topology(region, zone), client.Limit(1))); err == nil && len(nodes.Items) == 0 {
				faults = append(faults, fault{gardencorev1beta1.ErrorRetryableConfigurationProblem, workerPath(i).Child("zones").Index(j), fmt.Sprintf(
					"the provider cluster has no node in region %s and zone %s; use another zone, or add nodes with the topology labels of this zone", region, zone)})
			}
		}
	}

	return faults
}

// topology selects the provider nodes of a region and zone, as the driver does.
func topology(region, zone string) client.ListOption {
	selector := labels.NewSelector()

	for label, value := range map[string]string{corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: zone} {
		operator := selection.Equals
		values := []string{value}
		if value == providerspec.AnyTopology {
			operator = selection.DoesNotExist
			values = nil
		}

		if requirement, err := labels.NewRequirement(label, operator, values); err == nil {
			selector = selector.Add(*requirement)
		}
	}

	return client.MatchingLabelsSelector{Selector: selector}
}

// checkQuota checks that the ResourceQuotas can hold the minimum number of machines of all pools.
func (f *flow) checkQuota(ctx context.Context, shoot *gardencorev1beta1.Shoot, pools []*workerpool.Pool) []fault {
	quotas := &corev1.ResourceQuotaList{}
	if f.note(f.provider.List(ctx, quotas, client.InNamespace(f.namespace))) != nil {
		return nil
	}

	needed := minimum(shoot, pools)

	var faults []fault

	for _, quota := range quotas.Items {
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue // It counts only some pods.
		}

		for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
			need := needed[name]
			hard := quota.Spec.Hard[name]
			if need.Cmp(hard) > 0 {
				faults = append(faults, fault{gardencorev1beta1.ErrorInfraQuotaExceeded, field.NewPath("spec", "provider", "workers"), fmt.Sprintf(
					"the minimum of all worker pools needs %s of %s, but ResourceQuota %s of the provider cluster allows %s; reduce the minimum, or raise the quota",
					need.String(), name, quota.Name, hard.String())})
			}
		}
	}

	return faults
}

// minimum returns the resources that the minimum number of machines of all pools requests. Machine
// types with an instance type add no CPU and memory: the instance type may request less.
func minimum(shoot *gardencorev1beta1.Shoot, pools []*workerpool.Pool) corev1.ResourceList {
	cpu := resource.Quantity{}
	memory := resource.Quantity{}
	machines := resource.Quantity{}

	for i, pool := range pools {
		count := int64(shoot.Spec.Provider.Workers[i].Minimum)
		requests := pool.Requests()
		addTimes(&cpu, requests[corev1.ResourceCPU], count)
		addTimes(&memory, requests[corev1.ResourceMemory], count)
		addTimes(&machines, resource.MustParse("1"), count)
	}

	return corev1.ResourceList{
		corev1.ResourceCPU:                  cpu,
		corev1.ResourceRequestsCPU:          cpu,
		corev1.ResourceMemory:               memory,
		corev1.ResourceRequestsMemory:       memory,
		corev1.ResourcePods:                 machines,
		"count/virtualmachines.kubevirt.io": machines,
	}
}

func addTimes(sum *resource.Quantity, one resource.Quantity, times int64) {
	one.Mul(times)
	sum.Add(one)
}

// checkHotplug checks that volumes of pods can be attached, if the CloudProfile offers storage classes
// for them. Reading KubeVirt's configuration is an optional permission.
func (f *flow) checkHotplug(ctx context.Context) []fault {
	if !f.hasVolumes() {
		return nil
	}

	if k := f.kubeVirt(ctx); k == nil || hotplugs(k) {
		return nil
	}

	return []fault{{
		gardencorev1beta1.ErrorRetryableConfigurationProblem, field.NewPath("CloudProfile", "spec", "providerConfig", "volumeClasses"),
		"KubeVirt of the provider cluster cannot attach volumes to running machines; enable its feature gate HotplugVolumes, or remove exposeAs from all classes",
	}}
}

// hotplugs reports whether an installation of KubeVirt attaches volumes to running machines.
func hotplugs(k *kubevirtv1.KubeVirt) bool {
	return slices.Contains(developerOf(k).FeatureGates, "HotplugVolumes") || hasGate(k, "DeclarativeHotplugVolumes")
}

// hasGate reports whether a feature gate is on that is Beta. KubeVirt enables these by default since v1.9
// (pkg/virt-config/featuregate).
func hasGate(k *kubevirtv1.KubeVirt, gate string) bool {
	if slices.Contains(developerOf(k).FeatureGates, gate) {
		return true
	}

	version, err := semver.NewVersion(k.Status.ObservedKubeVirtVersion)
	if err != nil {
		return true // It is not known.
	}

	return !version.LessThan(semver.New(1, 9, 0, "", "")) && !slices.Contains(developerOf(k).DisabledFeatureGates, gate)
}

func developerOf(k *kubevirtv1.KubeVirt) kubevirtv1.DeveloperConfiguration {
	return ptr.Deref(k.Spec.Configuration.DeveloperConfiguration, kubevirtv1.DeveloperConfiguration{})
}
