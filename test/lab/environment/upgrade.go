// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// UpgradeKubeVirt upgrades the KubeVirt of a running lab to another minor version in place, and
// returns when it is healthy. Only the owner of the lab can do that.
func (l *Lab) UpgradeKubeVirt(ctx context.Context, minor string, progress io.Writer) error {
	if l.owner != nil {
		return errors.New("upgrade KubeVirt: another process owns the lab")
	}
	to, err := binaries.EnsureKubeVirt(ctx, progress, minor)
	if err != nil {
		return fmt.Errorf("prepare KubeVirt %s: %w", minor, err)
	}
	if err := l.Provider.UpgradeKubeVirt(ctx, to); err != nil {
		return err
	}
	l.Binaries.KubeVirtVersion = to.KubeVirtVersion
	return nil
}
