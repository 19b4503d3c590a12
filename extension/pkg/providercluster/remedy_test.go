// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestExplain adds a remedy once, and only to errors of the credentials and of the connection.
func TestExplain(t *testing.T) {
	t.Parallel()

	roles := schema.GroupResource{Resource: "roles"}

	for name, tc := range map[string]struct {
		err     error
		remedy  string
		failure bool
	}{
		"unauthorized":  {err: nameError(apierrors.NewUnauthorized("Unauthorized")), remedy: "replace the credentials of the Shoot", failure: true},
		"quota":         {err: nameError(apierrors.NewForbidden(roles, "a", errors.New("exceeded quota"))), failure: true},
		"not reachable": {err: nameError(errors.New("dial tcp: i/o timeout")), remedy: "check its API server", failure: true},
		"slow":          {err: nameError(context.DeadlineExceeded), remedy: "check its API server", failure: true},
		"busy":          {err: nameError(ErrBusy), remedy: "check its API server"},
		"with a remedy": {err: WithRemedy(nameError(apierrors.NewUnauthorized("Unauthorized"))), remedy: "replace the credentials of the Shoot", failure: true},
		"no kubeconfig": {err: ErrCredentials, failure: true},
		"of the seed":   {err: apierrors.NewUnauthorized("Unauthorized")},
		"none":          {},
	} {
		wrapped := tc.err
		if wrapped != nil {
			wrapped = fmt.Errorf("list Services: %w", tc.err)
		}

		explained := Explain(wrapped)
		require.Equal(t, tc.failure, IsFailure(explained), name)

		switch {
		case tc.err == nil:
			require.NoError(t, explained, name)
		case tc.remedy == "":
			require.Equal(t, wrapped, explained, name)
		default:
			require.ErrorContains(t, explained, "; "+tc.remedy, name)
			require.Equal(t, explained, Explain(explained), name)
		}
	}

	denied := apierrors.NewForbidden(roles, "", nil)
	denied.ErrStatus.Message = `roles is forbidden: User "a" cannot list resource "roles"`
	require.ErrorContains(t, Explain(nameError(denied)), "grant the kubeconfig's user")
}
