// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// rotateCertificateAuthorities rotates the certificate authorities of the shoot in Gardener's phases. While
// it is prepared, clients learn the new CA, and the server keeps its certificate; when it is completed,
// the server has a certificate of the new CA.
func rotateCertificateAuthorities(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	old := authorities(t, shoot)
	require.Len(t, old, 1)
	requireServerSignedBy(t, shoot, old[0])

	now := metav1.NewTime(time.Now().Truncate(time.Second))
	rotation := &gardencorev1beta1.CARotation{Phase: gardencorev1beta1.RotationPreparing, LastInitiationTime: &now}
	shoot.Object.Status.Credentials = &gardencorev1beta1.ShootCredentials{Rotation: &gardencorev1beta1.ShootCredentialsRotation{CertificateAuthorities: rotation}}

	require.NoError(t, shoot.Reconcile(t.Context()))

	both := authorities(t, shoot)
	require.Len(t, both, 2)
	requireServerSignedBy(t, shoot, old[0])

	rotation.Phase = gardencorev1beta1.RotationCompleting
	require.NoError(t, shoot.Reconcile(t.Context()))

	remaining := authorities(t, shoot)
	require.Len(t, remaining, 1)
	require.NotEqual(t, old[0].Raw, remaining[0].Raw)
	requireServerSignedBy(t, shoot, remaining[0])
	requireDeployments(t, shoot, 1)

	rotation.Phase = gardencorev1beta1.RotationCompleted
}

// authorities returns the certificate authorities of the control plane.
func authorities(t *testing.T, shoot *seed.Botanist) []*x509.Certificate {
	t.Helper()

	list := &corev1.SecretList{}
	require.NoError(t, theSeed.Client.List(t.Context(), list, client.InNamespace(shoot.Namespace), client.MatchingLabels{"name": "ca-provider-kubevirt-controlplane"}))

	var found []*x509.Certificate
	for _, secret := range list.Items {
		found = append(found, certificate(t, secret.Data["ca.crt"]))
	}

	return found
}

// requireServerSignedBy requires that cloud-controller-manager's pods mount a certificate of a CA.
func requireServerSignedBy(t *testing.T, shoot *seed.Botanist, ca *x509.Certificate) {
	t.Helper()
	requireApplied(t, shoot, "extension-controlplane-seed")

	for _, volume := range deployment(t, shoot, "cloud-controller-manager").Spec.Template.Spec.Volumes {
		if volume.Name != "server" {
			continue
		}

		secret := &corev1.Secret{}
		require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: volume.Secret.SecretName}, secret))
		require.NoError(t, certificate(t, secret.Data["tls.crt"]).CheckSignatureFrom(ca))

		return
	}

	require.Fail(t, "cloud-controller-manager has no volume server")
}

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()

	block, _ := pem.Decode(data)
	require.NotNil(t, block)

	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)

	return parsed
}
