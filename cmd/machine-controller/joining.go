// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

// resyncPeriod is the interval at which unchanged Machines in memory are processed again.
const resyncPeriod = 5 * time.Minute

// joining measures the last phase of machines, in which machine-controller-manager does not call
// the driver. It watches Machines in the control cluster, and caches only their names, UIDs and
// phases.
type joining struct {
	phases *records.Phases[records.Progress]
}

func newJoining() *joining {
	store := records.NewStore[records.Progress](clock.RealClock{}, records.Retention)

	return &joining{phases: records.NewPhases(store, func(p *records.Progress) *records.Progress { return p }, records.Joined)}
}

// measureJoining registers the measurement, and returns the function that runs it.
func measureJoining(control *controlCluster) (run func(context.Context), err error) {
	machines, err := machinesClient(control.config)
	if err != nil {
		return nil, err
	}

	j := newJoining()
	if err := prometheus.Register(j.phases); err != nil {
		return nil, fmt.Errorf("register the phases of machines: %w", err)
	}

	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(machines.RESTClient(), "machines", control.server.Namespace, fields.Everything()),
		ObjectType:    &machinev1alpha1.Machine{},
		ResyncPeriod:  resyncPeriod,
		Handler:       j,
		Transform:     onlyStatus,
	})

	return func(ctx context.Context) { informer.Run(ctx.Done()) }, nil
}

// onlyStatus drops the parts of a Machine that are not measured.
func onlyStatus(object any) (any, error) {
	machine, ok := object.(*machinev1alpha1.Machine)
	if !ok {
		return object, nil
	}

	return &machinev1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            machine.Name,
			Namespace:       machine.Namespace,
			UID:             machine.UID,
			ResourceVersion: machine.ResourceVersion,
		},
		Status: machinev1alpha1.MachineStatus{CurrentStatus: machine.Status.CurrentStatus},
	}, nil
}

var _ cache.ResourceEventHandler = (*joining)(nil)

// OnAdd implements cache.ResourceEventHandler.
func (j *joining) OnAdd(object any, _ bool) { j.OnUpdate(nil, object) }

// OnUpdate implements cache.ResourceEventHandler. machine-controller-manager sets a Machine to
// Pending when the driver has initialized it, and to Running when its Node is ready. Both times are
// in the status, so a restart in between changes nothing. A Machine that is first seen as Running
// was measured before.
func (j *joining) OnUpdate(before, now any) {
	machine, ok := now.(*machinev1alpha1.Machine)
	if !ok {
		return
	}

	switch status := machine.Status.CurrentStatus; status.Phase {
	case machinev1alpha1.MachinePending:
		j.phases.SetWaiting(records.Key(machine.UID), records.Joined, status.LastUpdateTime.Time)
	case machinev1alpha1.MachineRunning:
		if old, ok := before.(*machinev1alpha1.Machine); ok && old.UID == machine.UID && old.Status.CurrentStatus.Phase == machinev1alpha1.MachinePending {
			j.phases.Done(records.Key(machine.UID), map[records.Phase]time.Duration{
				records.Joined: status.LastUpdateTime.Sub(old.Status.CurrentStatus.LastUpdateTime.Time),
			})
		}
	default:
		j.phases.Forget(records.Key(machine.UID))
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (j *joining) OnDelete(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}

	if machine, ok := object.(*machinev1alpha1.Machine); ok {
		j.phases.Forget(records.Key(machine.UID))
	}
}
