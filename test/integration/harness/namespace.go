// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PatchNamespace merges fields into the metadata of the provider namespace.
func (s *Shoot) PatchNamespace(t *testing.T, metadata map[string]any) {
	t.Helper()

	_, err := s.Kube.CoreV1().Namespaces().Patch(t.Context(), s.ProviderNamespace, types.MergePatchType, MarshalPatch(t, map[string]any{"metadata": metadata}), metav1.PatchOptions{})
	require.NoError(t, err)
}

// Annotate sets an annotation of the provider namespace, such as a latency.
func (s *Shoot) Annotate(t *testing.T, key, value string) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := s.Kube.CoreV1().Namespaces().Patch(t.Context(), s.ProviderNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// DryRun makes the API server validate a request without executing it.
var DryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
