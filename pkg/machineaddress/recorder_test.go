// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineaddress_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/fake"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineaddress"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const namespace = "shoot"

var (
	here  = spi.Address{Server: "s", Namespace: "here", Cluster: "c", Role: "node", UID: "u"}
	there = spi.Address{Server: "s", Namespace: "there", Cluster: "c", Role: "node", UID: "u"}
	class = &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
)

// scripted is a driver with scripted responses. It counts the calls of InitializeMachine.
type scripted struct {
	driver.Driver

	state       string
	err         error
	initialized int
}

func (s *scripted) CreateMachine(context.Context, *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	return &driver.CreateMachineResponse{ProviderID: "kubevirt://m", LastKnownState: s.state}, s.err
}

func (s *scripted) InitializeMachine(context.Context, *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	s.initialized++

	return &driver.InitializeMachineResponse{}, s.err
}

func (s *scripted) DeleteMachine(context.Context, *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	if s.state == "" {
		return nil, s.err
	}

	return &driver.DeleteMachineResponse{LastKnownState: s.state}, s.err
}

// rig is a recorder in front of a control cluster with one Machine.
type rig struct {
	*scripted

	recorder *machineaddress.Recorder
	driver   driver.Driver
	control  *fake.Clientset
	machine  *v1alpha1.Machine
}

func newRig(t *testing.T, annotation string) *rig {
	t.Helper()

	r := &rig{
		scripted: &scripted{},
		machine: &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: namespace, UID: "machine-1"},
			Spec:       v1alpha1.MachineSpec{Class: v1alpha1.ClassSpec{Name: "class"}, ProviderID: "kubevirt://m"},
		},
	}
	if annotation != "" {
		r.machine.Annotations = map[string]string{spi.AnnotationAddress: annotation}
	}

	r.control = fake.NewSimpleClientset(r.machine)
	r.recorder = machineaddress.New(machineaddress.Options{
		Machines:  r.control.MachineV1alpha1(),
		Namespace: namespace,
		Delay:     time.Second,
		Period:    time.Minute,
	})
	r.driver = r.recorder.Driver(r.scripted)

	return r
}

func (r *rig) recorded(t *testing.T) string {
	t.Helper()

	found, err := r.control.MachineV1alpha1().Machines(namespace).Get(t.Context(), "m", metav1.GetOptions{})
	require.NoError(t, err)

	return found.Annotations[spi.AnnotationAddress]
}

// fail makes the control cluster refuse patches until stop is called.
func (r *rig) fail() (stop func()) {
	failing := true

	r.control.PrependReactor("patch", "machines", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("refused")
	})

	return func() { failing = false }
}

func (r *rig) create(t *testing.T) *driver.CreateMachineResponse {
	t.Helper()

	resp, err := r.driver.CreateMachine(t.Context(), &driver.CreateMachineRequest{Machine: r.machine})
	require.NoError(t, err)

	return resp
}

func (r *rig) initialize(t *testing.T) {
	t.Helper()

	before := r.machine.DeepCopy()
	_, err := r.driver.InitializeMachine(t.Context(), &driver.InitializeMachineRequest{Machine: r.machine})
	require.NoError(t, err)
	require.Equal(t, before, r.machine, "requests are never changed")
}

// TestInitializeMachine_RecordsCreation verifies that the address is written after machine-controller-manager has
// updated the Machine, not before.
func TestInitializeMachine_RecordsCreation(t *testing.T) {
	t.Parallel()

	r := newRig(t, "")
	r.state = here.Encode()

	resp := r.create(t)
	require.Empty(t, resp.LastKnownState, "it is not for the Machine's status")
	require.Empty(t, r.recorded(t), "machine-controller-manager's update would meet a conflict")

	r.initialize(t)
	require.Equal(t, here.Encode(), r.recorded(t))

	writes := len(r.control.Actions())
	r.initialize(t)
	require.Len(t, r.control.Actions(), writes, "once is enough")
	require.Equal(t, 2, r.initialized)
}

// TestInitializeMachine_WriteFails verifies that a failed write does not stop the machine's creation,
// and is retried.
func TestInitializeMachine_WriteFails(t *testing.T) {
	t.Parallel()

	r := newRig(t, "")
	r.state = here.Encode()
	stop := r.fail()

	r.create(t)
	r.initialize(t)
	require.Empty(t, r.recorded(t))
	require.Equal(t, 1, r.initialized)

	stop()
	r.initialize(t)
	require.Equal(t, here.Encode(), r.recorded(t))
}

// TestRecorder_DeletedMachine verifies that a deleted Machine does not count as a failure.
func TestRecorder_DeletedMachine(t *testing.T) {
	t.Parallel()

	r := newRig(t, "")
	r.state = here.Encode()
	require.NoError(t, r.control.MachineV1alpha1().Machines(namespace).Delete(t.Context(), "m", metav1.DeleteOptions{}))
	r.create(t)
	r.initialize(t)

	writes := len(r.control.Actions())
	r.initialize(t)
	require.Len(t, r.control.Actions(), writes, "it is not tried again")
}

// TestRecorder_ForeignState verifies that the state of another driver is passed on unchanged.
func TestRecorder_ForeignState(t *testing.T) {
	t.Parallel()

	r := newRig(t, "")
	r.state = `{"vm":"i-123"}`
	require.Equal(t, r.state, r.create(t).LastKnownState)
	r.initialize(t)

	r.err = errors.New("failed")
	resp, err := r.driver.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: r.machine})
	require.ErrorIs(t, err, r.err)
	require.Equal(t, r.state, resp.LastKnownState)
	require.Empty(t, r.recorded(t))
}

// TestDeleteMachine_RecordsMove verifies that the address is recorded before the deletion, and that
// the error reaches machine-controller-manager, which retries.
func TestDeleteMachine_RecordsMove(t *testing.T) {
	t.Parallel()

	r := newRig(t, here.Encode())
	r.state = there.Encode()
	r.err = errors.New("recorded first")

	resp, err := r.driver.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: r.machine})
	require.ErrorIs(t, err, r.err)
	require.Empty(t, resp.LastKnownState)
	require.Equal(t, there.Encode(), r.recorded(t))

	r.state = ""
	r.err = nil
	resp, err = r.driver.DeleteMachine(t.Context(), &driver.DeleteMachineRequest{Machine: r.machine})
	require.NoError(t, err)
	require.Nil(t, resp)
}

// TestListed compares every kind of record with a listing.
func TestListed(t *testing.T) {
	t.Parallel()

	other := there
	other.UID = "v"
	replaced := here
	replaced.UID = "v"

	tests := map[string]struct {
		reason     string
		annotation string
		class      string
		seen       spi.Address
		want       string
	}{
		"Missing":    {"a Machine of an earlier version", "", "class", here, here.Encode()},
		"Same":       {"nothing to do", here.Encode(), "class", here, here.Encode()},
		"Moved":      {"the same VirtualMachine at a new address", here.Encode(), "class", there, there.Encode()},
		"Replaced":   {"another VirtualMachine in its place", here.Encode(), "class", replaced, replaced.Encode()},
		"Other":      {"another VirtualMachine elsewhere is not the machine's", here.Encode(), "class", other, here.Encode()},
		"Unreadable": {"what is seen is known again", "{", "class", here, here.Encode()},
		"GivenUp":    {"a person has decided", spi.AddressAbandoned, "class", here, spi.AddressAbandoned},
		"OtherClass": {"the class of this Machine was not listed", "", "another", here, ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.annotation)
				r.runOn(t, tc.class, tc.seen)
				require.Equal(t, tc.want, r.recorded(t), tc.reason)
			})
		})
	}
}

// runOn passes one listing to the recorder, and waits until it is idle.
func (r *rig) runOn(t *testing.T, ofClass string, seen spi.Address) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})

	go func() {
		r.recorder.Run(ctx)
		close(done)
	}()

	r.recorder.Listed(&v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: ofClass}}, []spi.Machine{{Name: "m", Address: seen}})
	r.recorder.Listed(class, nil)
	time.Sleep(time.Second) //nolint:forbidigo // The bubble's clock.
	synctest.Wait()
	cancel()
	<-done
}

// TestListed_OneWriteRefused has the control cluster refuse to write one of two Machines: the other
// one is written.
func TestListed_OneWriteRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		first := r.machine.DeepCopy()
		first.Name = "a"
		first.UID = "machine-0"
		require.NoError(t, r.control.Tracker().Add(first))
		r.control.PrependReactor("patch", "machines", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, ok := action.(clienttesting.PatchAction)

			return ok && patch.GetName() == "a", nil, errors.New("refused")
		})

		ofFirst := here
		ofFirst.UID = "w"

		r.recorder.Listed(class, []spi.Machine{{Name: "a", Address: ofFirst}})
		r.runOn(t, class.Name, here)
		require.Equal(t, here.Encode(), r.recorded(t))
	})
}

// TestCompare_SecondPage has a control cluster whose first page of Machines is empty.
func TestCompare_SecondPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		pages := 0

		r.control.PrependReactor("list", "machines", func(clienttesting.Action) (bool, runtime.Object, error) {
			pages++

			return pages == 1, &v1alpha1.MachineList{ListMeta: metav1.ListMeta{Continue: "next"}}, nil
		})

		r.runOn(t, class.Name, here)
		require.Equal(t, 2, pages)
		require.Equal(t, here.Encode(), r.recorded(t))
	})
}

// TestListed_NotCalled verifies that a process that is not the leader sends no
// requests, and that the leader does not list all Machines constantly.
func TestListed_NotCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		go r.recorder.Run(ctx)

		time.Sleep(time.Hour) //nolint:forbidigo // The bubble's clock.
		synctest.Wait()
		require.Empty(t, r.control.Actions())

		for range 100 {
			r.recorder.Listed(class, []spi.Machine{{Name: "m", Address: here}})
			time.Sleep(time.Second) //nolint:forbidigo // The bubble's clock.
		}

		cancel()
		synctest.Wait()

		lists := 0

		for _, action := range r.control.Actions() {
			if action.Matches("list", "machines") {
				lists++
			}
		}

		require.LessOrEqual(t, lists, 2, "once a minute at most")
	})
}

// TestListed_UncreatedMachine verifies that InitializeMachine records the address of a
// Machine that machine-controller-manager is about to update.
func TestListed_UncreatedMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "")
		r.machine.Spec.ProviderID = ""
		_, err := r.control.MachineV1alpha1().Machines(namespace).Update(t.Context(), r.machine, metav1.UpdateOptions{})
		require.NoError(t, err)

		r.runOn(t, "class", here)
		require.Empty(t, r.recorded(t))
		r.initialize(t)
		require.Equal(t, here.Encode(), r.recorded(t))
	})
}
