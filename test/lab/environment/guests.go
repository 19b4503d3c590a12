// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// prepareGuests builds the lab's programs and the image of its real guests.
func prepareGuests(ctx context.Context, progress io.Writer) (*binaries.Binaries, string, error) {
	if err := host.Check(); err != nil {
		return nil, "", err
	}
	found, err := binaries.EnsureGuest(ctx, progress)
	if err != nil {
		return nil, "", err
	}
	image, err := guest.EnsureImage(ctx, found.Kubelet, progress)
	return found, image, err
}

// startGuests starts the hypervisor. It precedes the control planes, since their API server reaches the
// kubelets through it.
func (l *Lab) startGuests(ctx context.Context, o Options, image string) error {
	if !o.RealGuests {
		return nil
	}
	if o.SeparateTarget {
		return errors.New("real guests cannot join a separate target cluster")
	}
	var err error
	l.Guests, err = guest.New(ctx, guest.Options{
		Dir:      filepath.Join(l.folder.data(), "guests"),
		LogDir:   l.LogDir,
		Group:    l.group,
		Image:    image,
		Launcher: l.Binaries.Launcher,
		Importer: l.Binaries.Importer,
	})
	if err != nil {
		return fmt.Errorf("start the hypervisor: %w", err)
	}
	return nil
}

func (l *Lab) stopGuests(ctx context.Context) error {
	if l.Guests == nil {
		return nil
	}
	return l.Guests.Stop(ctx)
}

// kubelets returns how the control cluster and the kubelets of real guests reach each other.
func (l *Lab) kubelets() *controlplane.Kubelets {
	if l.Nodes != nil {
		return &controlplane.Kubelets{Server: node.Gateway}
	}
	if l.Guests == nil {
		return nil
	}
	return &controlplane.Kubelets{Server: guest.ServerAddress, ProxySocket: l.Guests.ProxySocket()}
}

// joinArgs gives bootstrap tokens the permissions that real kubelets need, as the shipped Deployment does.
func (l *Lab) joinArgs() []string {
	if l.kubelets() == nil {
		return nil
	}
	return []string{"--bootstrap-token-auth-extra-groups=" + controlplane.Bootstrappers}
}

// hypervisor returns the hypervisor for the data plane, or nil. A nil *guest.Hypervisor would not be a
// nil interface.
func (l *Lab) hypervisor() hypervisor.Hypervisor {
	if l.Guests == nil {
		return nil
	}
	return l.Guests
}
