// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// refuse makes the provider cluster unusable.
func (d *delegate) refuse(err error) {
	d.provider = nil
	d.newProviderCluster = func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
		return nil, err
	}
}

// TestPostDeleteHook_NothingWritten deletes a Worker whose credentials never worked, but not one that may have golden
// images.
func TestPostDeleteHook_NothingWritten(t *testing.T) {
	t.Parallel()

	for name, err := range map[string]error{
		"no kubeconfig": fmt.Errorf("%w: the Secret with the credentials has no key kubeconfig", providercluster.ErrCredentials),
		"token refused": fmt.Errorf("%w%w", providercluster.ErrRequest, apierrors.NewUnauthorized("Unauthorized")),
		"unreachable":   fmt.Errorf("%w%w", providercluster.ErrRequest, errors.New("dial tcp: i/o timeout")),
	} {
		d := guide().delegate(t)
		d.refuse(err)
		require.Error(t, d.createImages(t.Context()), name)
		require.NoError(t, d.PostDeleteHook(t.Context()), name)

		d = guide().delegate(t)
		require.NoError(t, d.createImages(t.Context()), name)
		d.refuse(err)
		require.Error(t, d.PostDeleteHook(t.Context()), name)
	}

	d := guide().delegate(t)
	d.refuse(errors.New("get Secret cloudprovider: the API server of the seed does not respond"))
	require.Error(t, d.PostDeleteHook(t.Context()), "this says nothing about the provider cluster")
}
