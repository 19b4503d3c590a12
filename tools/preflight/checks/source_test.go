// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckSources_MissingPriorityClass also has a source in a namespace that does not exist.
func TestCheckSources_MissingPriorityClass(t *testing.T) {
	t.Parallel()

	c := classOf(t, `{"spec":{"dataVolumeTemplates":[{"spec":{"priorityClassName":"import","source":{"pvc":{"name":"base","namespace":"imagse"}}}}],"template":{"spec":{}}}}`)
	r := readerOn(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "images"}})

	got := checkSources(t.Context(), r, c)
	require.Len(t, got, 2)
	require.Equal(t, Error, got[0].Level)
	require.Equal(t, "Namespace imagse does not exist", got[0].Message)
	require.Equal(t, Error, got[1].Level)
	require.Equal(t, "PriorityClass import: does not exist", got[1].Subject+": "+got[1].Message)
	require.Contains(t, got[1].Remedy, "kubectl get priorityclasses.scheduling.k8s.io")
}
