// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"testing"

	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// workloadIdentity returns a WorkloadIdentity with fields of its config.
func workloadIdentity(fields string) *securityv1alpha1.WorkloadIdentity {
	identity := &securityv1alpha1.WorkloadIdentity{Spec: securityv1alpha1.WorkloadIdentitySpec{TargetSystem: securityv1alpha1.TargetSystem{Type: "kubevirt"}}}
	if fields != "" {
		identity.Spec.TargetSystem.ProviderConfig = &runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "WorkloadIdentityConfig", %s}`, fields)}
	}

	return identity
}

const validIdentity = `"server": "https://provider.example.com", "namespace": "machines"`

func TestWorkloadIdentityValidator(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason   string
		identity *securityv1alpha1.WorkloadIdentity
		old      *securityv1alpha1.WorkloadIdentity
		want     string
	}{
		"Valid":           {reason: "it has what is required", identity: workloadIdentity(validIdentity)},
		"None":            {reason: "the provider cluster is not known", identity: workloadIdentity(""), want: "spec.targetSystem.providerConfig: Required value: add a WorkloadIdentityConfig"},
		"Unknown":         {reason: "decoding is strict", identity: workloadIdentity(validIdentity + `, "token": "a"`), want: "spec.targetSystem.providerConfig.token"},
		"Internal":        {reason: "it is the seed's own server", identity: workloadIdentity(`"server": "https://localhost", "namespace": "machines"`), want: "spec.targetSystem.providerConfig.server"},
		"NewServer":       {reason: "an address may change", identity: workloadIdentity(`"server": "https://new.example.com", "namespace": "machines"`), old: workloadIdentity(validIdentity)},
		"NewNamespace":    {reason: "machines cannot move", identity: workloadIdentity(`"server": "https://provider.example.com", "namespace": "b"`), old: workloadIdentity(validIdentity), want: "must remain machines"},
		"StoredInternal":  {reason: "it was accepted before", identity: workloadIdentity(`"server": "https://localhost", "namespace": "a"`), old: workloadIdentity(`"namespace": "a", "server": "https://localhost"`)},
		"CorrectsInvalid": {reason: "the old config never worked", identity: workloadIdentity(validIdentity), old: workloadIdentity(`"namespaces": "a"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var err error
			if tc.old == nil {
				err = (&workloadIdentityValidator{identities: &kubevirt.IdentityOptions{}}).Validate(t.Context(), tc.identity, nil)
			} else {
				err = (&workloadIdentityValidator{identities: &kubevirt.IdentityOptions{}}).Validate(t.Context(), tc.identity, tc.old)
			}

			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}

	require.NoError(t, (&workloadIdentityValidator{allowInternalServers: true, identities: &kubevirt.IdentityOptions{}}).Validate(t.Context(), workloadIdentity(`"server": "https://localhost", "namespace": "a"`), nil))
}

// TestWorkloadIdentityValidator_AllowedServers refuses a server that is not the operator's, also as a change.
func TestWorkloadIdentityValidator_AllowedServers(t *testing.T) {
	t.Parallel()

	v := &workloadIdentityValidator{identities: &kubevirt.IdentityOptions{AllowedServers: []string{"https://provider.example.com"}}}
	attackers := workloadIdentity(`"server": "https://attacker.example.net", "namespace": "machines"`)

	require.NoError(t, v.Validate(t.Context(), workloadIdentity(validIdentity), nil))
	require.ErrorContains(t, v.Validate(t.Context(), attackers, nil), "spec.targetSystem.providerConfig.server: Forbidden")
	require.ErrorContains(t, v.Validate(t.Context(), attackers, workloadIdentity(validIdentity)), "spec.targetSystem.providerConfig.server: Forbidden")
}

func TestBindingValidator_Kinds(t *testing.T) {
	t.Parallel()

	for kind, valid := range map[string]bool{"Secret": true, "WorkloadIdentity": true, "InternalSecret": false} {
		binding := &securityv1alpha1.CredentialsBinding{CredentialsRef: corev1.ObjectReference{Kind: kind}}

		err := (&bindingValidator{}).Validate(t.Context(), binding, nil)
		if valid {
			require.NoError(t, err, kind)
		} else {
			require.ErrorContains(t, err, "credentialsRef.kind")
			require.NoError(t, (&bindingValidator{}).Validate(t.Context(), binding, binding), "it exists")
		}
	}
}

// TestNamespaceOf_WorkloadIdentity does not read a WorkloadIdentity, for which admission has no permission.
func TestNamespaceOf_WorkloadIdentity(t *testing.T) {
	t.Parallel()

	scheme := runtime.NewScheme()
	require.NoError(t, securityv1alpha1.AddToScheme(scheme)) // It has no Secrets.

	binding := &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "a", Name: "b"},
		CredentialsRef: corev1.ObjectReference{Kind: "WorkloadIdentity", Namespace: "a", Name: "c"},
	}
	v := &shootValidator{garden: fake.NewClientBuilder().WithScheme(scheme).WithObjects(binding).Build()}

	namespace, err := v.namespaceOf(t.Context(), client.ObjectKeyFromObject(binding))
	require.NoError(t, err)
	require.Empty(t, namespace)
}
