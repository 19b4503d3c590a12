// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// TestDeleteRecorded_NothingWritten deletes a ControlPlane whose credentials never worked, but not one that may have
// accounts.
func TestDeleteRecorded_NothingWritten(t *testing.T) {
	t.Parallel()

	for name, refused := range map[string]error{
		"no kubeconfig": fmt.Errorf("%w: the Secret with the credentials has no key kubeconfig", providercluster.ErrCredentials),
		"token refused": fmt.Errorf("%w%w", providercluster.ErrRequest, apierrors.NewUnauthorized("Unauthorized")),
		"unreachable":   fmt.Errorf("%w%w", providercluster.ErrRequest, errors.New("dial tcp: i/o timeout")),
	} {
		a := accounts{
			seed: fake.NewClientBuilder().Build(),
			newProviderCluster: func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
				return nil, refused
			},
		}
		cp := newControlPlane()
		cluster := newCluster()

		require.Error(t, a.ensure(t.Context(), logr.Discard(), cp, cluster), name)
		require.NoError(t, a.deleteRecorded(t.Context(), logr.Discard(), cp, cluster), name)

		require.NoError(t, a.record(t.Context(), cp), name)
		require.Error(t, a.deleteRecorded(t.Context(), logr.Discard(), cp, cluster), name)
		require.False(t, a.exist(t.Context(), cp), "a record has no credentials")
	}
}
