// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// badCredentials are credentials with which nothing can be created.
func badCredentials() map[string]error {
	return map[string]error{
		"no kubeconfig": fmt.Errorf("%w: the Secret with the credentials has no key kubeconfig", providercluster.ErrCredentials),
		"token refused": named(apierrors.NewUnauthorized("Unauthorized")),
		"unreachable":   named(errors.New(`Get "https://provider.example.com": dial tcp: lookup provider.example.com: no such host`)),
		"unknown CA":    named(errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority")),
	}
}

// refuse makes the provider cluster unusable.
func (l *landscape) refuse(err error) {
	if errors.Is(err, providercluster.ErrCredentials) {
		l.actuator.newProviderCluster = func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
			return nil, err
		}
	}

	l.down = err
}

// TestDelete_NothingWritten deletes an Infrastructure whose credentials never worked.
func TestDelete_NothingWritten(t *testing.T) {
	t.Parallel()

	for name, err := range badCredentials() {
		for _, spec := range []*api.InfrastructureConfig{config(), allOptions()} {
			l := newLandscape(t, spec)
			l.refuse(err)

			require.Error(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), name)
			require.Zero(t, l.writes, name)
			require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), name)
		}
	}

	l := newLandscape(t, allOptions())
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "the extension's webhook")
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "the kubeconfig never had the namespace")
}

// TestDelete_Written requires credentials, and its error has the remedy.
func TestDelete_Written(t *testing.T) {
	t.Parallel()

	for name, err := range badCredentials() {
		l := newLandscape(t, config(tenant("a")))
		l.reconcile(t)
		l.refuse(err)

		failed := l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster)
		require.Error(t, failed, name)

		if apierrors.IsUnauthorized(err) {
			require.ErrorContains(t, failed, "replace the credentials of the Shoot")
			require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorInfraUnauthenticated}, v1beta1helper.ExtractErrorCodes(failed))
		}
	}
}

// TestReconcile_RecordsFirst requires the record of a write before the write, and in a restoration, whose objects
// another seed has written, before the first request.
func TestReconcile_RecordsFirst(t *testing.T) {
	t.Parallel()

	for name, spec := range map[string]*api.InfrastructureConfig{"all options": allOptions(), "networks": config(tenant("a"))} {
		l := newLandscape(t, spec)
		if spec.Namespace != nil {
			l.provider.Namespace = technicalID
		}

		l.beforeWrite = func() error {
			seen := &extensionsv1alpha1.Infrastructure{}
			require.NoError(t, l.actuator.seed.Get(t.Context(), client.ObjectKeyFromObject(l.infra), seen))
			require.NotNil(t, seen.Status.ProviderStatus, name)

			return nil
		}
		l.reconcile(t)
		require.Positive(t, l.writes)
	}

	for name, err := range badCredentials() {
		l := newLandscape(t, config(tenant("a")))
		l.refuse(err)
		require.Error(t, l.actuator.Restore(t.Context(), logr.Discard(), l.infra, l.cluster), name)
		require.Error(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), name)
	}
}

// TestDelete_Unrecorded deletes what an older version wrote before an error, without a record.
func TestDelete_Unrecorded(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")), network(namespace, technicalID+"-a", bridge, labelledFor("")))
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Empty(t, l.networks(t))
}

// TestForceDelete_UsedNetwork deletes the namespace of a shoot with its remaining virtual machines.
func TestForceDelete_UsedNetwork(t *testing.T) {
	t.Parallel()

	machine := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "m", Labels: map[string]string{providerspec.TagCluster: technicalID}},
		Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{
			Networks: []kubevirtv1.Network{{Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: technicalID + "/" + technicalID + "-a"}}}},
		}}},
	}
	l := newLandscape(t, allOptions(), machine)
	l.provider.Namespace = technicalID
	l.reconcile(t)

	require.ErrorContains(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "still use the networks", "an ordinary deletion waits")
	require.NoError(t, l.actuator.ForceDelete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.True(t, apierrors.IsNotFound(l.provider.Get(t.Context(), client.ObjectKey{Name: technicalID}, &corev1.Namespace{})))
}

// TestForceDelete_EachStep continues after a step that fails.
func TestForceDelete_EachStep(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, allOptions(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "lb", Labels: labelledFor(shootUID)}})
	l.provider.Namespace = technicalID
	l.reconcile(t)

	l.writes = 0
	l.beforeWrite = func() error {
		return named(apierrors.NewInternalError(errors.New("etcdserver: request timed out")))
	}
	require.NoError(t, l.actuator.ForceDelete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Equal(t, 4, l.writes, "load balancer, network, NetworkPolicy and namespace")
}
