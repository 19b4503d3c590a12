// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineaddress

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// pageSize is the number of Machines per page.
const pageSize = 200

// Listed records where the machines of a class were found. Run compares Machines with these
// addresses: a machine may have been moved, or created by an earlier version or by a process that
// died before it recorded the address. It does not block.
func (r *Recorder) Listed(class *v1alpha1.MachineClass, machines []spi.Machine) {
	if len(machines) == 0 {
		return
	}

	place := machines[0].Address
	place.UID = ""

	seen := make(map[string]types.UID, len(machines))
	for i := range machines {
		seen[machines[i].Name] = machines[i].Address.UID
	}

	r.mu.Lock()
	r.seen[place] = seen
	r.places[class.Name] = place
	r.mu.Unlock()

	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run compares Machines with the listings until ctx ends. It sends requests only if there was a
// listing since the last comparison: only the leader lists machines.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}

		if !pause(ctx, r.options.Delay) {
			return
		}

		if err := r.compare(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Not all Machines record their address; they are compared again after the next listing")
		}

		if !pause(ctx, r.options.Period) {
			return
		}
	}
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// compare reads the Machines page by page, and records missing and changed addresses. A Machine
// that cannot be written does not affect the others.
func (r *Recorder) compare(ctx context.Context) error {
	var errs []error

	seen, places := r.flush()
	options := metav1.ListOptions{Limit: pageSize}

	for {
		list, err := r.page(ctx, options)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}

		for i := range list.Items {
			machine := &list.Items[i]
			address := places[machine.Spec.Class.Name]
			address.UID = seen[address][machine.Name]

			errs = append(errs, r.follow(ctx, machine, address))
		}

		if list.Continue == "" || ctx.Err() != nil {
			return errors.Join(errs...)
		}

		options.Continue = list.Continue
	}
}

func (r *Recorder) page(ctx context.Context, options metav1.ListOptions) (*v1alpha1.MachineList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return r.options.Machines.Machines(r.options.Namespace).List(ctx, options)
}

// flush returns the listings and removes them.
func (r *Recorder) flush() (seen map[spi.Address]map[string]types.UID, places map[string]spi.Address) {
	r.mu.Lock()
	defer r.mu.Unlock()

	seen, places = r.seen, r.places
	r.seen = map[spi.Address]map[string]types.UID{}
	r.places = map[string]spi.Address{}

	return seen, places
}

// follow records the address at which a Machine's VirtualMachine was found. A Machine
// without a provider ID is about to be updated by machine-controller-manager, so its
// address waits for InitializeMachine.
func (r *Recorder) follow(ctx context.Context, machine *v1alpha1.Machine, address spi.Address) error {
	valid := address.Validate() == nil
	if !valid || !outdated(spi.RecordedAddressOf(machine.Annotations), address) {
		return nil
	}

	if machine.Spec.ProviderID == "" {
		r.pending.Add(machine.UID, address)

		return nil
	}

	return r.record(ctx, machine, address)
}

// outdated reports whether a record must be replaced with this address. A different VirtualMachine
// at a different place does not belong to the machine.
func outdated(recorded *spi.RecordedAddress, address spi.Address) bool {
	switch {
	case recorded == nil || recorded.Fault != "":
		return true
	case recorded.Abandoned:
		return false
	default:
		return recorded.Address != address && (recorded.SamePlace(address) || recorded.Names(address.UID))
	}
}
