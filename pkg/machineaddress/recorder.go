// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package machineaddress records the addresses of VirtualMachines on their Machines, in the control
// cluster: in the annotation spi.AnnotationAddress, which the driver reads from its requests.
// cmd/machine-controller wraps every driver, in its process or over gRPC, with the Driver of this
// package. A driver in its process also reports its listings. The package must not depend on a
// provider cluster, nor on how a record is used.
package machineaddress

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// requestTimeout bounds one request to the control cluster, for which the creation of a machine may
	// wait.
	requestTimeout = 5 * time.Second
	// maxPending is the maximum number of machines whose address is not recorded yet. An address is
	// usually pending for milliseconds.
	maxPending = 1000
)

// Options are the recorder's dependencies. All are required.
type Options struct {
	// Machines is a client of the control cluster that may list and patch Machines in Namespace.
	Machines machineclient.MachinesGetter
	// Namespace is the only namespace whose Machines are considered.
	Namespace string
	// Delay is how long listings are collected before Machines are compared with them, and Period
	// the pause until the next comparison.
	Delay, Period time.Duration
}

// Recorder records addresses. It is safe for concurrent use.
type Recorder struct {
	options Options
	// pending holds addresses to be recorded in the next call of InitializeMachine, by the
	// Machine's UID.
	pending *lru.Cache
	wake    chan struct{}

	mu sync.Mutex
	// seen holds the VirtualMachines that were listed since the last comparison, by address without
	// UID, and by name.
	seen map[spi.Address]map[string]types.UID
	// places holds the address of each class's machines, without UID, by the name of the class.
	places map[string]spi.Address
}

// New returns a recorder.
func New(options Options) *Recorder {
	return &Recorder{
		options: options,
		pending: lru.New(maxPending),
		wake:    make(chan struct{}, 1),
		seen:    map[spi.Address]map[string]types.UID{},
		places:  map[string]spi.Address{},
	}
}

// record writes an address to a Machine. It skips a Machine that was deleted, or replaced by another
// one of the same name.
func (r *Recorder) record(ctx context.Context, machine *v1alpha1.Machine, address spi.Address) error {
	value := address.Encode()
	if machine.Annotations[spi.AnnotationAddress] == value {
		return nil
	}

	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": machine.UID, "annotations": map[string]string{spi.AnnotationAddress: value},
	}})
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	_, err = r.options.Machines.Machines(machine.Namespace).Patch(ctx, machine.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		klog.FromContext(ctx).V(3).Info("Not recording the address of a Machine that is gone", "machine", klog.KObj(machine), "reason", err.Error())

		return nil
	}

	if err != nil {
		return fmt.Errorf("record the address of Machine %s: %w", klog.KObj(machine), err)
	}

	return nil
}
