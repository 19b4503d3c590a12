// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	"github.com/gardener/gardener/extensions/pkg/controller/worker/genericactuator"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// failing is a generic actuator whose reconciliations fail.
type failing struct {
	worker.Actuator

	err error
}

func (f failing) Reconcile(context.Context, logr.Logger, *extensionsv1alpha1.Worker, *extensionscontroller.Cluster) error {
	return f.err
}

// TestReconcile_RemovedPool requires the error about a machine of a removed pool to tell how to try again at once.
func TestReconcile_RemovedPool(t *testing.T) {
	t.Parallel()

	removed := errors.New(removedPool + ": machine m failed: QuotaExceeded: no room")
	other := errors.New("failed while waiting for all machine deployments to be ready")

	err := (&actuator{Actuator: failing{err: removed}}).Reconcile(t.Context(), logr.Discard(), nil, nil)
	require.ErrorIs(t, err, removed)
	require.ErrorContains(t, err, "kubectl annotate shoot NAME gardener.cloud/operation=reconcile")
	require.Empty(t, v1beta1helper.ExtractErrorCodes(err), "a code could end Gardener's retries, although the machine is soon gone")

	require.Equal(t, other, (&actuator{Actuator: failing{err: other}}).Reconcile(t.Context(), logr.Discard(), nil, nil))
	require.NoError(t, (&actuator{Actuator: failing{}}).Reconcile(t.Context(), logr.Discard(), nil, nil))
}

// TestRemovedPool requires Gardener's library to write this text.
func TestRemovedPool(t *testing.T) {
	t.Parallel()

	pc := reflect.ValueOf(genericactuator.NewActuator).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	source, err := os.ReadFile(filepath.Join(filepath.Dir(file), "actuator_reconcile.go"))
	require.NoError(t, err)
	require.Contains(t, string(source), removedPool)
}
