// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// awaitWebhook waits until the webhook is called for the shoot's new VirtualMachines.
func awaitWebhook(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	probe := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
		},
	}
	harness.Eventually(t, "the webhook "+name+" is in force", func(ctx context.Context) (bool, error) {
		_, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})

		return err != nil && strings.Contains(err.Error(), name), nil
	})
}

// breakWebhook registers an unreachable webhook for this shoot only.
func breakWebhook(operation admissionv1.OperationType, group, resources string) func(*testing.T, *harness.Shoot) {
	return func(t *testing.T, s *harness.Shoot) {
		t.Helper()

		webhooks := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err := webhooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: s.ProviderNamespace},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name:                    "failures.example.com",
				AdmissionReviewVersions: []string{"v1"},
				SideEffects:             new(admissionv1.SideEffectClassNone),
				ClientConfig:            admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				FailurePolicy:           new(admissionv1.Fail),
				NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.ProviderNamespace}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{operation},
					Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resources}},
				}},
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = webhooks.Delete(context.WithoutCancel(t.Context()), s.ProviderNamespace, metav1.DeleteOptions{}) // The test has already deleted it, unless it failed.
		})
	}
}
