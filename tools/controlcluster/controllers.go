// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlcluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// The controllers that act on Machines, by the names of their leases in the control namespace
// (cmd/machine-controller-manager/app/controllermanager.go and pkg/util/provider/app/app.go of
// machine-controller-manager).
const (
	Manager           = "machine-controller-manager"
	MachineController = "machine-controller"
)

// Liveness is the state of a controller according to its lease.
type Liveness string

const (
	// Running is the state of a controller that renews its lease.
	Running Liveness = "Running"
	// Stopped is the state of a controller that does not renew its lease.
	Stopped Liveness = "Stopped"
	// unknown is the state of a controller without a lease (leader election is disabled), or whose
	// lease cannot be read.
	unknown Liveness = "Unknown"
)

const (
	// confirmPeriod is how long a lease that seems to have expired is polled. Its holder renews it
	// every 2 s, so a renewal shows that the controller runs, even if the clocks of this machine
	// and of the holder differ.
	confirmPeriod = 6 * time.Second
	confirmEvery  = time.Second
	// defaultLease is the duration of a lease that does not specify one.
	defaultLease = 15 * time.Second
)

// Controller is the state of a controller according to its lease.
type Controller struct {
	Name  string   `json:"name"`
	Lease string   `json:"lease"`
	State Liveness `json:"state"`
	// Holder is the identity in the lease.
	Holder string `json:"holder,omitempty"`
	// Renewed is when the lease was last renewed.
	Renewed *time.Time `json:"renewed,omitempty"`
	// Note is why the state is unknown.
	Note string `json:"note,omitempty"`
}

// Controllers reads the leases of both controllers in the namespace, at the same time: a lease that seems to have
// expired is polled for confirmPeriod.
func (c *Cluster) Controllers(ctx context.Context) []Controller {
	var (
		manager, machines Controller
		both              sync.WaitGroup
	)

	both.Go(func() { manager = c.controller(ctx, Manager) })
	both.Go(func() { machines = c.controller(ctx, MachineController) })
	both.Wait()

	return []Controller{manager, machines}
}

func (c *Cluster) controller(ctx context.Context, name string) Controller {
	s := Controller{Name: name, Lease: c.Namespace + "/" + name, State: unknown}

	lease, err := c.lease(ctx, name)

	switch {
	case apierrors.IsNotFound(err):
		s.Note = "no lease found; a controller with --leader-elect=false has none"

		return s
	case err != nil:
		s.Note = fmt.Sprintf("get Lease %s: %s", s.Lease, err)

		return s
	}

	s.State = Running

	if expired(lease, time.Now()) {
		lease, s.State = c.awaitRenewal(ctx, lease)
	}

	s.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")

	if lease.Spec.RenewTime != nil {
		s.Renewed = &lease.Spec.RenewTime.Time
	}

	return s
}

func (c *Cluster) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return c.Kubernetes.CoordinationV1().Leases(c.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// expired reports whether the holder of a lease seems to have stopped. A renewal far in the future
// counts too: this machine's clock may be behind.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	if lease.Spec.RenewTime == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return true
	}

	valid := defaultLease
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		valid = time.Duration(seconds) * time.Second
	}

	return now.Sub(lease.Spec.RenewTime.Time).Abs() > valid
}

// awaitRenewal polls a lease that seems to have expired. A renewal shows that its holder is
// running.
func (c *Cluster) awaitRenewal(ctx context.Context, expired *coordinationv1.Lease) (*coordinationv1.Lease, Liveness) {
	renewed := expired

	err := wait.PollUntilContextTimeout(ctx, confirmEvery, confirmPeriod, false, func(ctx context.Context) (bool, error) {
		now, err := c.lease(ctx, expired.Name)
		if err != nil || now.Spec.RenewTime == nil || now.Spec.RenewTime.Equal(expired.Spec.RenewTime) {
			return false, nil //nolint:nilerr // The next request may succeed.
		}

		renewed = now

		return ptr.Deref(now.Spec.HolderIdentity, "") != "", nil
	})
	if err != nil {
		return expired, Stopped
	}

	return renewed, Running
}
