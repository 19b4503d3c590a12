// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

// Record records in the seed that the account of a program may exist in the provider cluster: it creates the
// Secret of the program without credentials, unless the Secret exists.
func Record(ctx context.Context, seed client.Client, namespace, program string) error {
	c := &credentials{seed: seed, secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName(program)}}}

	if err := c.record(ctx); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}

	return nil
}

// IsRecorded reports whether the account of a program may exist in the provider cluster.
func IsRecorded(ctx context.Context, seed client.Reader, namespace, program string) (bool, error) {
	err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: SecretName(program)}, &corev1.Secret{})

	return err == nil, client.IgnoreNotFound(err)
}

// record creates the Secret of the program, if it does not exist.
func (c *credentials) record(ctx context.Context) error {
	if c.secret.ResourceVersion != "" {
		return nil
	}

	c.secret.Data = map[string][]byte{mount.KeyKubeconfig: {}, mount.KeyToken: {}}

	if err := c.seed.Create(ctx, c.secret); err != nil {
		return fmt.Errorf("record that the account may exist: create Secret %s: %w", c.secret.Name, err)
	}

	return nil
}
