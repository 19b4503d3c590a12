// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"maps"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// class is a MachineClass with its parsed ProviderSpec and its user data.
type class struct {
	object *machinev1alpha1.MachineClass
	spec   *providerspec.ProviderSpec
	// userData is the content of the class's Secret.
	userData []byte
	// architecture is the architecture of the guest.
	architecture string
}

// classOf returns the class of a pool in its i-th zone. It reports errors with the fields of the Shoot.
func (d *delegate) classOf(p *pool, i int, name string) (class, field.ErrorList) {
	spec, raw, errs := p.ProviderSpec(i)
	if len(errs) > 0 {
		return class{}, errs
	}

	return class{object: d.machineClass(p, p.Zones[i], name, raw), spec: spec, userData: p.userData, architecture: p.GuestArchitecture}, nil
}

func (d *delegate) machineClass(p *pool, zone, name string, spec []byte) *machinev1alpha1.MachineClass {
	return &machinev1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: d.worker.Namespace,
			Labels:    map[string]string{v1beta1constants.GardenerPurpose: v1beta1constants.GardenPurposeMachineClass},
		},
		Provider:             kubevirt.Type,
		ProviderSpec:         runtime.RawExtension{Raw: spec},
		NodeTemplate:         d.nodeTemplateOf(p, zone),
		SecretRef:            &corev1.SecretReference{Namespace: d.worker.Namespace, Name: name},
		CredentialsSecretRef: &corev1.SecretReference{Namespace: d.worker.Spec.SecretRef.Namespace, Name: d.worker.Spec.SecretRef.Name},
	}
}

// resourceGPU is the name of GPUs in Gardener's node templates.
const resourceGPU corev1.ResourceName = "gpu"

// nodeTemplateOf returns the node template, from which cluster-autoscaler knows the resources of a
// node of a pool without machines.
func (d *delegate) nodeTemplateOf(p *pool, zone string) *machinev1alpha1.NodeTemplate {
	t := &machinev1alpha1.NodeTemplate{
		Capacity:     corev1.ResourceList{},
		InstanceType: p.MachineType,
		Region:       d.worker.Spec.Region,
		Zone:         zone,
		Architecture: &p.GuestArchitecture,
	}

	if p.NodeTemplate != nil {
		maps.Copy(t.Capacity, p.NodeTemplate.Capacity)
		t.VirtualCapacity = maps.Clone(p.NodeTemplate.VirtualCapacity)
	}

	// gardenlet keeps the template of an existing pool when the operator changes the machine type.
	t.Capacity[corev1.ResourceCPU] = p.CPUs()
	t.Capacity[corev1.ResourceMemory] = p.MemoryRequest()
	t.Capacity[resourceGPU] = p.GPUs()

	if own := p.Config.NodeTemplate; own != nil {
		maps.Copy(t.Capacity, own.Capacity)

		if len(own.VirtualCapacity) > 0 && t.VirtualCapacity == nil {
			t.VirtualCapacity = corev1.ResourceList{}
		}

		maps.Copy(t.VirtualCapacity, own.VirtualCapacity)
	}

	return t
}

// DeployMachineClasses implements genericactuator.WorkerDelegate: it writes the classes and their
// Secrets, if they differ. The generic actuator deletes those that are no longer desired.
func (d *delegate) DeployMachineClasses(ctx context.Context) error {
	w, err := d.generated(ctx)
	if err != nil {
		return err
	}

	for i := range w.classes {
		if err := d.deploySecret(ctx, &w.classes[i]); err != nil {
			return err
		}

		if err := d.deployClass(ctx, w.classes[i].object); err != nil {
			return err
		}
	}

	return nil
}

func (d *delegate) deploySecret(ctx context.Context, c *class) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.object.Name, Namespace: c.object.Namespace}}

	_, err := controllerutils.GetAndCreateOrMergePatch(ctx, d.seed, secret, func() error {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1beta1constants.GardenerPurpose, v1beta1constants.GardenPurposeMachineClass)
		secret.Type = corev1.SecretTypeOpaque
		secret.Data = map[string][]byte{providerspec.SecretKeyUserData: c.userData}

		return nil
	})
	if err != nil {
		return fmt.Errorf("deploy Secret of MachineClass %s: %w", c.object.Name, err)
	}

	return nil
}

func (d *delegate) deployClass(ctx context.Context, desired *machinev1alpha1.MachineClass) error {
	object := &machinev1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: desired.Name, Namespace: desired.Namespace}}

	_, err := controllerutils.GetAndCreateOrMergePatch(ctx, d.seed, object, func() error {
		for key, value := range desired.Labels {
			metav1.SetMetaDataLabel(&object.ObjectMeta, key, value)
		}

		object.Provider = desired.Provider
		object.ProviderSpec = desired.ProviderSpec
		object.NodeTemplate = desired.NodeTemplate
		object.SecretRef = desired.SecretRef
		object.CredentialsSecretRef = desired.CredentialsSecretRef

		return nil
	})
	if err != nil {
		return fmt.Errorf("deploy MachineClass %s: %w", desired.Name, err)
	}

	return nil
}
