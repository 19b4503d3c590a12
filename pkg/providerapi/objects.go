// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// Objects are the objects of one kind in one namespace. Each method sends one request, and retries
// it on transient failures of the provider cluster within Clients.RetryFor. Errors are spi.Errors
// that name the operation, and wrap those of the API server.
type Objects[O Object, L runtime.Object] struct {
	// Source reads pages and watches, for Collect, Some and Follow.
	Source[L]

	client          client[O, L]
	clients         *Clients
	kind, namespace string
	// secret is set if the objects contain secrets.
	secret bool
}

// Object is a pointer to an API object.
type Object interface {
	comparable
	metav1.Object
	runtime.Object
}

// client is a typed client, as client-gen generates it.
type client[O Object, L runtime.Object] interface {
	Source[L]

	Create(ctx context.Context, object O, opts metav1.CreateOptions) (O, error)
	Update(ctx context.Context, object O, opts metav1.UpdateOptions) (O, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, selected metav1.ListOptions) error
}

func objectsOf[O Object, L runtime.Object](clients *Clients, kind string, typed client[O, L]) Objects[O, L] {
	return Objects[O, L]{Source: typed, client: typed, clients: clients, kind: kind, namespace: clients.Namespace}
}

// The kinds of objects that the driver uses.
type (
	// VirtualMachines are the VirtualMachines of a namespace.
	VirtualMachines = Objects[*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineList]
	// Instances are the VirtualMachineInstances of a namespace.
	Instances = Objects[*kubevirtv1.VirtualMachineInstance, *kubevirtv1.VirtualMachineInstanceList]
	// Migrations are the VirtualMachineInstanceMigrations of a namespace.
	Migrations = Objects[*kubevirtv1.VirtualMachineInstanceMigration, *kubevirtv1.VirtualMachineInstanceMigrationList]
	// DataVolumes are the DataVolumes of a namespace.
	DataVolumes = Objects[*cdiv1beta1.DataVolume, *cdiv1beta1.DataVolumeList]
	// Claims are the PersistentVolumeClaims of a namespace.
	Claims = Objects[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList]
	// StorageProfiles are the StorageProfiles of CDI.
	StorageProfiles = Objects[*cdiv1beta1.StorageProfile, *cdiv1beta1.StorageProfileList]
	// Secrets are the Secrets of a namespace.
	Secrets = Objects[*corev1.Secret, *corev1.SecretList]
)

// VirtualMachines returns the VirtualMachines in the namespace of the kubeconfig.
func (c *Clients) VirtualMachines() VirtualMachines {
	return objectsOf(c, "VirtualMachine", c.KubeVirt.KubevirtV1().VirtualMachines(c.Namespace))
}

// Instances returns the VirtualMachineInstances in the namespace of the kubeconfig.
func (c *Clients) Instances() Instances {
	return objectsOf(c, "VirtualMachineInstance", c.KubeVirt.KubevirtV1().VirtualMachineInstances(c.Namespace))
}

// Migrations returns the VirtualMachineInstanceMigrations in the namespace of the kubeconfig.
func (c *Clients) Migrations() Migrations {
	return objectsOf(c, "VirtualMachineInstanceMigration", c.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(c.Namespace))
}

// DataVolumes returns the DataVolumes in a namespace. kind names them in errors, such as "golden
// image".
func (c *Clients) DataVolumes(namespace, kind string) DataVolumes {
	volumes := objectsOf(c, kind, c.CDI.CdiV1beta1().DataVolumes(namespace))
	volumes.namespace = namespace

	return volumes
}

// Claims returns the PersistentVolumeClaims in the namespace of the kubeconfig.
func (c *Clients) Claims() Claims {
	return objectsOf(c, "PersistentVolumeClaim", c.Kubernetes.CoreV1().PersistentVolumeClaims(c.Namespace))
}

// StorageProfiles returns the StorageProfiles, which each authenticated user may read.
func (c *Clients) StorageProfiles() StorageProfiles {
	profiles := objectsOf(c, "StorageProfile", c.CDI.CdiV1beta1().StorageProfiles())
	profiles.namespace = ""

	return profiles
}

// Secrets returns the Secrets in the namespace of the kubeconfig.
func (c *Clients) Secrets() Secrets {
	secrets := objectsOf(c, "Secret", c.Kubernetes.CoreV1().Secrets(c.Namespace))
	secrets.secret = true

	return secrets
}

// Path returns the name of an object with its namespace, as messages show it.
func (c *Clients) Path(name string) string { return c.Namespace + "/" + name }

// DryRun returns clients whose methods Create and Update change nothing.
func (c *Clients) DryRun() *Clients {
	dry := *c
	dry.dryRun = []string{metav1.DryRunAll}

	return &dry
}

// WithoutRetry returns clients that send each request once.
func (c *Clients) WithoutRetry() *Clients {
	once := *c
	once.RetryFor = 0

	return &once
}

// Get returns the object of that name, or nil if the API server has none.
func (o Objects[O, L]) Get(ctx context.Context, name string) (O, error) {
	found, err := repeat(o.context(ctx), o.clients, "get "+o.path(name), readTimeout, func(ctx context.Context) (O, error) {
		return o.client.Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		var none O

		return none, ignoreAbsent(err)
	}

	return found, nil
}

// Create creates an object. The provider cluster refuses fields that its version of the API does
// not have: field validation is strict.
func (o Objects[O, L]) Create(ctx context.Context, object O) (O, error) {
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: o.clients.dryRun}

	return repeat(o.context(ctx), o.clients, "create "+o.path(object.GetName()), transport.RequestTimeout, func(ctx context.Context) (O, error) {
		return o.client.Create(ctx, object, options)
	})
}

// Update replaces an object.
func (o Objects[O, L]) Update(ctx context.Context, object O) (O, error) {
	return repeat(o.context(ctx), o.clients, "update "+o.path(object.GetName()), transport.RequestTimeout, func(ctx context.Context) (O, error) {
		return o.client.Update(ctx, object, metav1.UpdateOptions{DryRun: o.clients.dryRun})
	})
}

// Delete deletes the object of that name, unless it is gone.
func (o Objects[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	_, err := repeat(o.context(ctx), o.clients, "delete "+o.path(name), transport.RequestTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.client.Delete(ctx, name, options)
	})

	return ignoreAbsent(err)
}

// DeleteObject deletes an object that was read, unless it is being deleted or gone, but no other
// object of the same name.
func (o Objects[O, L]) DeleteObject(ctx context.Context, object O) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}

	return o.Delete(ctx, object.GetName(), deleteOnly(metav1.NewUIDPreconditions(string(object.GetUID()))))
}

// DeleteUnchanged is DeleteObject for an object whose controller must have a chance to add its
// finalizer: an object without a finalizer is deleted only in the version that was read. If the
// object changes at the same time, it is read and deleted again.
//
// Without that precondition, a controller may add its finalizer after the server has checked for
// finalizers (k8s.io/apiserver/pkg/registry/generic/registry/store.go, Delete). The server then
// deletes the object immediately, and the controller acts on an object that no longer exists:
// virt-controller starts a VirtualMachine, which it does not if it cannot add the finalizer
// (kubevirt.io/kubevirt/pkg/virt-controller/watch/vm/vm.go, sync).
func (o Objects[O, L]) DeleteUnchanged(ctx context.Context, object O) error {
	var none O

	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if object.GetDeletionTimestamp() != nil {
			return nil
		}

		only := metav1.NewUIDPreconditions(string(object.GetUID()))
		if len(object.GetFinalizers()) == 0 {
			only.ResourceVersion = ptr.To(object.GetResourceVersion())
		}

		deletion := o.Delete(ctx, object.GetName(), deleteOnly(only))
		if !apierrors.IsConflict(deletion) {
			return deletion
		}

		now, err := o.Get(ctx, object.GetName())
		if err != nil || now == none || now.GetUID() != object.GetUID() {
			return err
		}

		object = now

		return deletion
	})
}

func deleteOnly(preconditions *metav1.Preconditions) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
}

// DeleteCollection deletes the objects with these labels. The server selects the objects, so they
// cannot change between a read and the deletion. owner is their owner's name in errors.
func (o Objects[O, L]) DeleteCollection(ctx context.Context, owner, labels string) error {
	_, err := repeat(o.context(ctx), o.clients, "delete "+o.kind+"s of "+o.clients.Path(owner), transport.RequestTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, o.client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels})
	})

	return err
}

// path names an object in errors.
func (o Objects[O, L]) path(name string) string { return o.kind + " " + o.namespace + "/" + name }

// context prevents client-go from logging the bodies of requests and responses with secrets, which
// it does at -v=8.
func (o Objects[O, L]) context(ctx context.Context) context.Context {
	if !o.secret {
		return ctx
	}

	return klog.NewContext(ctx, logr.Discard())
}

func ignoreAbsent(err error) error {
	if Absent(err) {
		return nil
	}

	return err
}
