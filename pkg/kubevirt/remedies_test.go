// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// TestRemedyOf_Gardener requires the remedies of a Shoot's machines to name what its owner and the operators change:
// none of them writes MachineClasses or the Secret cloudprovider.
func TestRemedyOf_Gardener(t *testing.T) {
	t.Parallel()

	source := machineclass.SourceOf(&v1alpha1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Labels: map[string]string{"gardener.cloud/purpose": "machineclass"}},
		CredentialsSecretRef: &corev1.SecretReference{Namespace: "shoot--dev--a", Name: "cloudprovider"},
	}, nil)

	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Expired": {"of the credentials", spi.Errorf(spi.ErrUnauthenticated, "Unauthorized"), "CredentialsRefused"},
		"Refused": {"of the credentials, too", &spi.Error{Kind: spi.ErrInvalid, Message: "field exec is refused", Remedy: "correct the kubeconfig", Kubeconfig: true}, "CredentialsRefused"},
		"Folder": {
			"the folder of the driver has fewer permissions than Gardener needs",
			spi.WithRemedy(spi.Errorf(spi.ErrForbidden, "create DataVolume"), "run kubectl apply -k kubernetes/provider-namespace to grant create"), "PermissionDenied",
		},
		"Diagnosis": {"a field of the ProviderSpec", &spi.Error{Kind: spi.ErrInvalid, Reason: "ClaimInvalid", Message: "no mode", Remedy: "set an access mode"}, "ClaimInvalid"},
	} {
		text := textOf(t, tc.err, source)
		require.True(t, strings.HasSuffix(text, "; "+reasons.RemedyOf(tc.want)), "%s: %s: %s", name, tc.reason, text)
	}

	for _, f := range reasons.Failures() {
		text := textOf(t, &spi.Error{Kind: spi.ErrPrecondition, Reason: f.Token, Message: strings.Repeat("x", statustext.MaxLength), Remedy: "change the MachineClass"}, source)
		require.True(t, strings.HasSuffix(text, "; "+f.Remedy.String()), text)
	}

	other := spi.WithRemedy(spi.Errorf(spi.ErrConflict, "a"), "wait")
	require.Equal(t, "OperationInProgress: a; wait", textOf(t, other, source), "an expected response has no other remedy")
}
