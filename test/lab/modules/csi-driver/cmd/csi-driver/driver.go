// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// patience is how long the driver waits for a volume or a snapshot, every second.
	patience = 2 * time.Minute
	every    = time.Second

	volumePrefix = "pvc-"
)

var errNotOurs = errors.New("invalid volume name") // ErrInvalidVolume, ErrInvalidSnapshot

// driver is what pkg/kubevirt/client.go has: the clients of both clusters, and the settings.
type driver struct {
	infra, tenant client.Client
	subresources  rest.Interface
	discovery     discovery.DiscoveryInterface
	namespace     string
	labels        map[string]string
	allowed       enforcement

	mu      sync.Mutex
	tenants *snapshotv1.VolumeSnapshotClassList // read once
}

// enforcement is the content of the environment variable INFRA_STORAGE_CLASS_ENFORCEMENT (pkg/util/util.go).
type enforcement struct {
	AllowAll               bool     `json:"allowAll"`
	AllowDefault           bool     `json:"allowDefault"`
	AllowList              []string `json:"allowList"`
	StorageSnapshotMapping []struct {
		StorageClasses        []string `json:"storageClasses"`
		VolumeSnapshotClasses []string `json:"volumeSnapshotClasses"`
	} `json:"storageSnapshotMapping"`
}

func newDriver(o options, allowed string) (*driver, error) {
	d := &driver{namespace: o.infraNamespace, labels: map[string]string{}}
	for label := range strings.SplitSeq(o.infraLabels, ",") {
		key, value, found := strings.Cut(label, "=")
		if !found {
			return nil, fmt.Errorf("--infra-cluster-labels: %q is not key=value", label)
		}
		d.labels[key] = value
	}
	if err := yaml.Unmarshal([]byte(allowed), &d.allowed); err != nil {
		return nil, fmt.Errorf("read INFRA_STORAGE_CLASS_ENFORCEMENT: %w", err)
	}
	return d, d.connect(o)
}

func (d *driver) connect(o options) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kubevirtv1.AddToScheme, cdiv1beta1.AddToScheme, snapshotv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	infra, err := clientcmd.BuildConfigFromFlags("", o.infraKubeconfig)
	if err != nil {
		return fmt.Errorf("read --infra-cluster-kubeconfig: %w", err)
	}
	tenant, err := clientcmd.BuildConfigFromFlags("", o.tenantKubeconfig)
	if err != nil {
		return fmt.Errorf("read --tenant-cluster-kubeconfig: %w", err)
	}
	if d.infra, err = client.New(infra, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if d.tenant, err = client.New(tenant, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if d.discovery, err = discovery.NewDiscoveryClientForConfig(infra); err != nil {
		return err
	}
	raw := rest.CopyConfig(infra)
	raw.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	d.subresources, err = rest.UnversionedRESTClientFor(raw)
	return err
}

// get reads an object of the driver's namespace.
func (d *driver) get(ctx context.Context, name string, into client.Object) error {
	return d.infra.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, into)
}

// getOurs is get for objects that must have the driver's labels, and the prefix if they are volumes.
func (d *driver) getOurs(ctx context.Context, name, prefix string, into client.Object) error {
	if err := d.get(ctx, name, into); err != nil {
		return err
	}
	for key, value := range d.labels {
		if into.GetLabels()[key] != value {
			return errNotOurs
		}
	}
	if !strings.HasPrefix(name, prefix) {
		return errNotOurs
	}
	return nil
}

func (d *driver) volume(ctx context.Context, name string) (*cdiv1beta1.DataVolume, error) {
	volume := &cdiv1beta1.DataVolume{}
	return volume, d.getOurs(ctx, name, volumePrefix, volume)
}

// put calls a subresource of a machine: AddVolumeToVM, RemoveVolumeFromVM, RemoveVolumeFromVMI.
func (d *driver) put(ctx context.Context, resource, machine, subresource string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return d.subresources.Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces", d.namespace, resource, machine, subresource).
		SetHeader("Content-Type", "application/json").Body(raw).Do(ctx).Error()
}

// allows reports whether the shoot may have volumes of a storage class of the provider cluster.
func (d *driver) allows(class string) bool {
	return d.allowed.AllowAll || class == "" && d.allowed.AllowDefault || slices.Contains(d.allowed.AllowList, class)
}

// classOfSnapshot returns the snapshot class for a volume: getSnapshotClassNameFromVolumeClaimName, with an enforcement
// that allows neither all classes nor the default.
func (d *driver) classOfSnapshot(ctx context.Context, volume, wanted string) (string, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := d.get(ctx, volume, claim); err != nil {
		return "", err
	}
	if err := d.readTenantClasses(ctx); err != nil {
		return "", err
	}
	for _, m := range d.allowed.StorageSnapshotMapping {
		if class := claim.Spec.StorageClassName; class != nil && slices.Contains(m.StorageClasses, *class) && slices.Contains(m.VolumeSnapshotClasses, wanted) {
			return wanted, nil
		}
	}
	return "", fmt.Errorf("volume snapshot class %s is not compatible with the storage class of PVC %s", wanted, volume)
}

// readTenantClasses reads the classes of the shoot, which KubeVirt's driver needs for its messages.
func (d *driver) readTenantClasses(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tenants != nil {
		return nil
	}
	list := &snapshotv1.VolumeSnapshotClassList{}
	if err := d.tenant.List(ctx, list); err != nil {
		return err
	}
	d.tenants = list
	return nil
}

// exists reports whether an object was found.
func exists(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
