// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// writeCredentials writes the Secret with the credentials for the provider cluster.
func (s *Botanist) writeCredentials(ctx context.Context) error {
	if s.Kubeconfig == nil {
		return s.RotateCredentials(ctx)
	}

	return s.SetCredentials(ctx, s.Kubeconfig)
}

// RotateCredentials writes the Secret with new credentials for the provider cluster, and waits until
// the previous ones are invalid.
func (s *Botanist) RotateCredentials(ctx context.Context) error {
	kubeconfig, bound, err := s.seed.credentials(ctx, s.account)
	if err != nil {
		return err
	}

	if err := s.SetCredentials(ctx, kubeconfig); err != nil {
		return err
	}

	if s.bound != nil {
		if err := s.RevokeCredentials(ctx); err != nil {
			return err
		}
	}

	s.Kubeconfig = kubeconfig
	s.bound = bound

	return nil
}

// RevokeCredentials makes the credentials of Kubeconfig invalid, and waits until the provider cluster
// refuses them.
func (s *Botanist) RevokeCredentials(ctx context.Context) error {
	if err := s.seed.Provider.Delete(ctx, s.bound); err != nil {
		return fmt.Errorf("delete the Secret of a token: %w", err)
	}

	s.bound = nil

	return wrap(s.seed.awaitInvalid(ctx, s.Kubeconfig), "wait until the token is invalid")
}

// SetCredentials writes the Secret with a kubeconfig.
func (s *Botanist) SetCredentials(ctx context.Context, kubeconfig []byte) error {
	return s.writeSecret(ctx, v1beta1constants.SecretNameCloudProvider, map[string]string{v1beta1constants.GardenerPurpose: v1beta1constants.SecretNameCloudProvider},
		map[string][]byte{"kubeconfig": kubeconfig})
}

func (s *Botanist) writeGenericKubeconfig(ctx context.Context) error {
	kubeconfig, err := genericKubeconfig(s.seed.targetConfig)
	if err != nil {
		return err
	}

	return s.writeSecret(ctx, v1beta1constants.SecretNameGenericTokenKubeconfig, nil, map[string][]byte{"kubeconfig": kubeconfig})
}

// writeShootKubeconfig writes the kubeconfig with which extensions reach the shoot.
func (s *Botanist) writeShootKubeconfig(ctx context.Context) error {
	kubeconfig, err := yaml.Marshal(kubeconfigOf(s.seed.targetConfig, metav1.NamespaceSystem, map[string]any{"token": s.seed.targetConfig.BearerToken}))
	if err != nil {
		return err
	}

	return s.writeSecret(ctx, v1beta1constants.SecretNameGardenerInternal, nil, map[string][]byte{"kubeconfig": kubeconfig})
}

func (s *Botanist) writeSecret(ctx context.Context, name string, labels map[string]string, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	_, err := controllerutils.GetAndCreateOrMergePatch(ctx, s.seed.Client, secret, func() error {
		secret.Labels = labels
		secret.Data = data

		return nil
	})

	return wrap(err, "write Secret "+name)
}
