// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package images manages the golden images of shoots on provider clusters: the DataVolumes that
// root volumes are cloned from. It creates an image once, replaces an image whose import has
// failed or whose claim exceeded a quota, and deletes images that are no longer needed.
// pkg/providercluster calls it from the methods of the PluginSPI and passes DataVolumes that
// api/goldenimage renders; tools/preflight/checks lists images. It must not depend on
// machine-controller-manager, nor on the format of image names.
//
// Processes do not coordinate: names are fixed, deletions have preconditions, and a process that
// finds an image missing creates it again.
package images

import (
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// replaceAfter is the minimum age of a failed image before it is replaced, so that an import that
	// fails at once is not restarted in a loop.
	replaceAfter = 5 * time.Minute
	// retryAfter is the minimum age of an image whose claim exceeds a quota before it is created again.
	retryAfter = time.Minute
	// exceededQuota is CDI's reason for a claim that exceeds a quota (pkg/controller/common/util.go).
	exceededQuota = "ErrExceededQuota"
	// arrivalTimeout bounds the read of an image after a machine was cloned from it. The call that
	// observed the machine waits for this read.
	arrivalTimeout = 5 * time.Second
)

var (
	dataVolumeResource     = cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes")
	virtualMachineResource = kubevirtv1.GroupVersion.WithResource("virtualmachines")
)

// Manager manages the images of all provider clusters. It is safe for concurrent use.
type Manager struct {
	clock    clock.PassiveClock
	states   *states
	registry *registry
	pending  singleflight.Group
	metrics  *metrics
}

// NewManager returns a Manager that knows no image and no MachineClass. The orphan period is the
// interval at which machine-controller-manager lists the machines of each MachineClass
// (--machine-safety-orphan-vms-period).
func NewManager(c clock.PassiveClock, orphanPeriod time.Duration) *Manager {
	return &Manager{clock: c, states: newStates(), registry: newRegistry(c, orphanPeriod), metrics: newMetrics()}
}

func dataVolumes(c *providerapi.Clients) providerapi.DataVolumes {
	return c.DataVolumes(c.Namespace, "golden image")
}

func metadataOf(c *providerapi.Clients, resource schema.GroupVersionResource) metadata.ResourceInterface {
	return c.Metadata.Resource(resource).Namespace(c.Namespace)
}
