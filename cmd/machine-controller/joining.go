package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/phases"
)

// tellAgain is how often machines are looked at that have not changed, in this process's memory.
const tellAgain = 5 * time.Minute

// joining measures the last phase of machines, for which machine-controller-manager asks no driver: it watches their Machines. That is one
// watch in the control cluster, of which almost nothing is kept, and the same whether the driver is in this process or not.
type joining struct {
	tracker *phases.Tracker
}

// measureJoining returns the driver such that its first call begins the measurement: that call proves that this process leads, and two
// replicas must not count the same machines.
func measureJoining(server *mcmoptions.MCServer, inner driver.Driver) (driver.Driver, error) {
	config, err := controlConfig(server)
	if err != nil {
		return nil, err
	}

	client, err := mcmclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster's Machines: %w", err)
	}

	j := &joining{tracker: phases.NewTracker(clock.RealClock{}, phases.Joined)}
	if err := prometheus.Register(j.tracker); err != nil {
		return nil, fmt.Errorf("register the phases of machines: %w", err)
	}

	machines := cache.NewListWatchFromClient(client.MachineV1alpha1().RESTClient(), "machines", server.Namespace, fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: machines, ObjectType: &machinev1alpha1.Machine{}, ResyncPeriod: tellAgain, Handler: j, Transform: onlyStatus,
	})

	return &leading{Driver: inner, begin: sync.OnceFunc(func() { go informer.Run(wait.NeverStop) })}, nil
}

// leading tells of the first call of a driver.
type leading struct {
	driver.Driver

	begin func()
}

// ListMachines implements driver.Driver. It is the first call of a process that leads beside machines that are there already.
func (l *leading) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	l.begin()

	return l.Driver.ListMachines(ctx, req)
}

// GetMachineStatus implements driver.Driver. It is the first call for each machine that is to be made.
func (l *leading) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	l.begin()

	return l.Driver.GetMachineStatus(ctx, req)
}

// onlyStatus keeps of a Machine what is measured.
func onlyStatus(object any) (any, error) {
	machine, ok := object.(*machinev1alpha1.Machine)
	if !ok {
		return object, nil
	}

	return &machinev1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: machine.Name, Namespace: machine.Namespace, UID: machine.UID, ResourceVersion: machine.ResourceVersion,
		},
		Status: machinev1alpha1.MachineStatus{CurrentStatus: machine.Status.CurrentStatus},
	}, nil
}

var _ cache.ResourceEventHandler = (*joining)(nil)

// OnAdd implements cache.ResourceEventHandler.
func (j *joining) OnAdd(object any, _ bool) { j.OnUpdate(nil, object) }

// OnUpdate implements cache.ResourceEventHandler. machine-controller-manager sets a machine to Pending when the driver said that it was
// initialized, and to Running when its Node is ready; both times are in the status, so that a restart in between changes nothing. A
// machine that is Running from the first was measured before.
func (j *joining) OnUpdate(before, now any) {
	machine, ok := now.(*machinev1alpha1.Machine)
	if !ok {
		return
	}

	switch status := machine.Status.CurrentStatus; status.Phase {
	case machinev1alpha1.MachinePending:
		j.tracker.Waits(machine.UID, phases.Joined, status.LastUpdateTime.Time)
	case machinev1alpha1.MachineRunning:
		if old, ok := before.(*machinev1alpha1.Machine); ok && old.UID == machine.UID && old.Status.CurrentStatus.Phase == machinev1alpha1.MachinePending {
			j.tracker.Done(machine.UID, map[phases.Phase]time.Duration{
				phases.Joined: status.LastUpdateTime.Sub(old.Status.CurrentStatus.LastUpdateTime.Time),
			})
		}
	default:
		j.tracker.Forget(machine.UID)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (j *joining) OnDelete(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}

	if machine, ok := object.(*machinev1alpha1.Machine); ok {
		j.tracker.Forget(machine.UID)
	}
}
