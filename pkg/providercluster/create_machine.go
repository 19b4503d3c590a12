// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"encoding/base64"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// CreateMachine implements spi.PluginSPI. It creates the golden image, without waiting for the import, and the Secrets
// before the VirtualMachine, which could not boot without them, and without which they are created again. Names are
// deterministic, so that an interrupted call can be repeated.
func (m *Machines) CreateMachine(ctx context.Context, in *spi.CreateMachineInput) (*spi.Machine, error) {
	c, err := m.clients.For(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	if _, err := render.VirtualMachine(in, c.Namespace); err != nil {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", err) // before anything is created
	}

	release := func() {}
	defer func() { release() }()

	known := in
	steps := []func() error{func() (err error) {
		release, err = m.holdImage(ctx, c, in)

		return err
	}, func() error {
		known = withMigratable(ctx, c, in)

		return nil
	}}
	for _, secret := range render.Secrets(in, c.Namespace) {
		steps = append(steps, func() error { return ensureSecret(ctx, c, secret, in.Identity()) })
	}

	if err := together(steps...); err != nil {
		return nil, err
	}

	vm, err := render.VirtualMachine(known, c.Namespace)
	if err != nil {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", err)
	}

	uid, err := ensureVirtualMachine(ctx, c, vm, in.Identity())
	if err != nil {
		return nil, inProviderSpecTerms(err, in, vm)
	}

	if in.Spec.UsesGoldenImage() {
		m.images.Cloned()
	}

	in.Report.Send(spi.Progress{Reason: "VirtualMachineCreated", Message: "VirtualMachine " + c.Path(vm.Name) + " exists"})

	machine := newMachine(in.Name)
	machine.Address = addressOf(c, in.Identity(), uid)

	return machine, nil
}

func ensureSecret(ctx context.Context, c *providerapi.Clients, want *corev1.Secret, id spi.Identity) error {
	_, err := c.Secrets().Create(ctx, want)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	// The driver itself may cause a conflict: an update is sent again if its response was lost.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return adoptSecret(ctx, c, want, id)
	})
}

// adoptSecret updates an existing Secret of this machine with the current user data, since the
// bootstrap token may have been replaced.
func adoptSecret(ctx context.Context, c *providerapi.Clients, want *corev1.Secret, id spi.Identity) error {
	// The response may be as large as the user data.
	have, err := c.Secrets().Get(transport.Expect(ctx, textSize(want.Data)), want.Name)

	switch {
	case err != nil:
		return err
	case have == nil:
		return spi.Errorf(spi.ErrConflict, "Secret %s has just been deleted", c.Path(want.Name))
	case !render.Owns(id, have.Labels):
		return foreign("Secret", c.Path(want.Name))
	case have.DeletionTimestamp != nil:
		return spi.Errorf(spi.ErrConflict, "Secret %s is being deleted", c.Path(want.Name))
	case reflect.DeepEqual(have.Data, want.Data) && maps.Equal(have.Labels, want.Labels):
		return nil
	}

	have.Labels = want.Labels
	have.Data = want.Data

	_, err = c.Secrets().Update(ctx, have)
	if providerapi.Absent(err) {
		return spi.Errorf(spi.ErrConflict, "Secret %s has just been deleted", c.Path(want.Name))
	}

	return err
}

// textSize returns the number of bytes of a Secret's data in JSON.
func textSize(data map[string][]byte) (size int) {
	for name, value := range data {
		size += len(name) + base64.StdEncoding.EncodedLen(len(value))
	}

	return size
}

// ensureVirtualMachine returns the UID of the machine's VirtualMachine.
func ensureVirtualMachine(ctx context.Context, c *providerapi.Clients, want *kubevirtv1.VirtualMachine, id spi.Identity) (types.UID, error) {
	created, err := c.VirtualMachines().Create(ctx, want)

	switch {
	case err == nil:
		return created.UID, nil
	case !apierrors.IsAlreadyExists(err):
		return "", err
	}

	have, err := c.VirtualMachines().Get(ctx, want.Name)

	switch {
	case err != nil:
		return "", err
	case have == nil:
		return "", spi.Errorf(spi.ErrConflict, "VirtualMachine %s has just been deleted", c.Path(want.Name))
	case !render.Owns(id, have.Labels):
		return "", foreign("VirtualMachine", c.Path(want.Name))
	case have.DeletionTimestamp != nil:
		return "", spi.Errorf(spi.ErrConflict, "VirtualMachine %s is being deleted", c.Path(want.Name))
	}

	return have.UID, nil
}

// foreign returns the error for an object with the name of one of the machine's objects, but
// without the tags of its shoot.
func foreign(kind, path string) error {
	return spi.WithRemedy(spi.Errorf(spi.ErrForeign, "%s %s lacks the tags of this shoot", kind, path), "rename or remove it")
}
