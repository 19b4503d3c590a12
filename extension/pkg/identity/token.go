// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

const (
	// lifetime is the requested lifetime of a token. A token is renewed after half of it, so that it
	// remains valid if the extension or the provider cluster fail for days. API servers can shorten it
	// (--service-account-max-token-expiration).
	lifetime = 7 * 24 * time.Hour
	// minRenewal is the shortest time after which a token is renewed, even if the provider cluster
	// reports an earlier expiration.
	minRenewal = 5 * time.Minute
	// maxToken is the maximum size of a token, in bytes. The provider cluster is untrusted.
	maxToken = 16 << 10
)

// Accepts reports whether an API server accepts the credentials of a configuration. A provider cluster
// can revoke a token before it expires: it deletes the account, or replaces its signing key.
type Accepts func(context.Context, *rest.Config) bool

// token reports whether the provider cluster accepts the credentials in the Secret of a program.
func (a Accepts) token(ctx context.Context, secret *corev1.Secret) bool {
	config, err := mount.RESTConfig(secret.Data[mount.KeyKubeconfig], secret.Data[mount.KeyToken])

	return err == nil && a(ctx, config)
}

// Rejected returns those of the programs whose token the provider cluster does not accept. It ignores
// programs that use a copy of the shoot's credentials, and those without credentials.
func (a Accepts) Rejected(ctx context.Context, seed client.Reader, namespace string, programs ...string) ([]string, error) {
	var rejected []string

	for _, program := range programs {
		secret := &corev1.Secret{}
		if err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: SecretName(program)}, secret); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get the credentials of %s: %w", program, err)
		}

		if _, has := RenewAt(secret); has && !a.token(ctx, secret) {
			rejected = append(rejected, program)
		}
	}

	return rejected, nil
}

// token is a token of an account.
type token struct {
	text    string
	account types.UID
	renewAt time.Time
}

// requestToken requests a new token for an account.
func (m *Manager) requestToken(ctx context.Context, account *corev1.ServiceAccount) (*token, error) {
	now := time.Now()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime / time.Second))}}

	if err := m.Provider.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request a token for ServiceAccount %s: %w", account.Name, err)
	}

	text := request.Status.Token
	if text == "" || len(text) > maxToken {
		return nil, errors.New("request a token: the provider cluster returned an empty or oversized token")
	}

	valid := min(max(request.Status.ExpirationTimestamp.Sub(now), 2*minRenewal), lifetime)

	return &token{text: text, account: account.UID, renewAt: now.Add(valid / 2)}, nil
}
