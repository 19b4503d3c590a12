// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// renewal is the interval in which the token of the test is renewed. gardenlet renews after half of its
// lifetime, which is five minutes or more.
const renewal = 30 * time.Second

// credentialed are the programs that send requests with the credentials of a Shoot, by their user agents.
var credentialed = []string{"gardener-extension-provider-kubevirt", "machine-controller-manager-provider-kubevirt"}

// TestWorkloadIdentity runs a shoot with the credentials of a WorkloadIdentity: its tokens are those of a real
// gardener-apiserver, gardenlet's controller renews them, and the API server of the provider cluster trusts the
// garden's issuer.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()

	garden(t) // with the project

	stopServing, err := theSeed.TrustWorkloadIdentities(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stopServing()) })
	require.True(t, apierrors.IsUnauthorized(theSeed.AuthenticateAs(t.Context(), "garden-other")), "the example admits the projects that it names")

	shoot := newShoot(t, named("identity"))
	t.Cleanup(func() { require.NoError(t, shoot.StopPods()) })

	account := seed.AccountIn("identity")

	identity := workloadIdentity(t, "provider-cluster", account, seed.WorkloadIdentityAudience)
	require.NoError(t, theSeed.BindWorkloadIdentity(t.Context(), identity, account))

	stopRenewing, err := shoot.UseWorkloadIdentity(t.Context(), identity, renewal)
	require.NoError(t, err)
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, int(pool(shoot, 0).Minimum))

	requireRenewals(t, shoot, identity)
	require.NoError(t, stopRenewing())

	refused, err := shoot.Unauthenticated()
	require.NoError(t, err)
	require.Empty(t, refused)

	requireDistrust(t, shoot, account)
}

// workloadIdentity creates a WorkloadIdentity, and a binding to it as a user does.
func workloadIdentity(t *testing.T, name string, account seed.Account, audience string) *securityv1alpha1.WorkloadIdentity {
	t.Helper()

	identity, err := theSeed.CreateWorkloadIdentity(t.Context(), name, account, audience)
	require.NoError(t, err)

	binding := &securityv1alpha1.CredentialsBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: name},
		Provider:   securityv1alpha1.CredentialsBindingProvider{Type: "kubevirt"},
		CredentialsRef: corev1.ObjectReference{
			APIVersion: securityv1alpha1.SchemeGroupVersion.String(),
			Kind:       "WorkloadIdentity",
			Namespace:  identity.Namespace,
			Name:       identity.Name,
		},
	}
	require.NoError(t, garden(t).Create(t.Context(), binding, client.DryRunAll))

	return identity
}

// requireRenewals requires all programs to use new tokens while machines are created. A call of machine-controller-manager keeps the token
// with which it began; requests with an expired one would be refused.
func requireRenewals(t *testing.T, shoot *seed.Botanist, identity *securityv1alpha1.WorkloadIdentity) {
	t.Helper()

	for renewed := range 2 {
		before := tokens(t, identity)

		eventually(t, func(context.Context) (bool, string) {
			now := tokens(t, identity)

			return len(now) > len(before), fmt.Sprintf("%d tokens", len(now))
		})

		pool(shoot, 0).Minimum = int32(4 + renewed)
		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, int(pool(shoot, 0).Minimum))
	}

	used := tokens(t, identity)
	require.GreaterOrEqual(t, len(used), 3)

	for i, token := range used {
		t.Logf("token %d: %d requests of %v from %s to %s", i+1, token.Requests, token.UserAgents, token.First.Format(time.TimeOnly), token.Last.Format(time.TimeOnly))
	}

	for _, program := range credentialed {
		require.GreaterOrEqual(t, len(slices.DeleteFunc(used, func(u *seed.Token) bool { return !slices.Contains(u.UserAgents, program) })), 2, program)
	}
}

func tokens(t *testing.T, identity *securityv1alpha1.WorkloadIdentity) []*seed.Token {
	t.Helper()

	found, err := theSeed.Tokens(identity)
	require.NoError(t, err)

	return found
}

// requireDistrust requires the reason, and that Gardener tries again, if the provider cluster does not accept the
// audience of a token. The Shoot changes to another WorkloadIdentity while the token of the first one is valid,
// which must not be used for the other one.
func requireDistrust(t *testing.T, shoot *seed.Botanist, account seed.Account) {
	t.Helper()

	other := workloadIdentity(t, "other-audience", account, "another-system.example.com")

	stopRenewing, err := shoot.UseWorkloadIdentity(t.Context(), other, time.Hour)
	require.NoError(t, err)

	shoot.Repeats = nil
	err = shoot.Reconcile(t.Context())
	require.ErrorContains(t, err, `it does not accept the token of the WorkloadIdentity, which is of the issuer `)
	require.ErrorContains(t, err, `for the audiences ["another-system.example.com"]; let the AuthenticationConfiguration of its API server trust this issuer for one of these audiences`)
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err))
	require.NoError(t, stopRenewing())

	refused, err := shoot.Unauthenticated()
	require.NoError(t, err)
	require.NotEmpty(t, refused)
}
