// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestProvisionsIn(t *testing.T) {
	t.Parallel()

	of := func(key string, zones ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: zones}}}
	}
	class := func(terms ...corev1.TopologySelectorTerm) *storagev1.StorageClass {
		return &storagev1.StorageClass{AllowedTopologies: terms}
	}

	require.True(t, provisionsIn(class(), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y", "z")), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y"), of(corev1.LabelTopologyZone, "z")), "z"), "one term is enough")
	require.False(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y")), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y")), v1alpha1.AnyTopology))
	require.True(t, provisionsIn(class(of("topology.example.com/zone", "y")), "z"), "what another label means is not known")
}

// TestStoragesOf_NoDisks has a machine that boots from a container image, for which no storage is read.
func TestStoragesOf_NoDisks(t *testing.T) {
	t.Parallel()

	r := readerOn(t)
	require.Empty(t, storagesOf(t.Context(), r, classOf(t, `{"spec":{"template":{"spec":{}}}}`)).list)
	require.Empty(t, r.cached)
}

func TestDefaultClass(t *testing.T) {
	t.Parallel()

	created := time.Now()
	class := func(name, annotation, value string) storagev1.StorageClass {
		c := storagev1.StorageClass{}
		c.Name = name
		c.Annotations = map[string]string{annotation: value}
		c.CreationTimestamp = metav1.NewTime(created)

		return c
	}

	classes := []storagev1.StorageClass{class("other", "unrelated", "true"), class("false", annotationDefaultClass, "false")}
	require.Empty(t, defaultClass(classes))

	created = created.Add(time.Hour)
	classes = append(classes, class("newest", annotationDefaultClass, "true"))
	created = created.Add(-time.Minute)
	classes = append(classes, class("older", annotationDefaultClass, "true"))
	require.Equal(t, "newest", defaultClass(classes), "as the API server selects it")

	classes = append(classes, class("not-virt", annotationDefaultVirtClass, "false"))
	require.Equal(t, "newest", defaultClass(classes))

	classes = append(classes, class("virt", annotationDefaultVirtClass, "true"))
	require.Equal(t, "virt", defaultClass(classes), "CDI prefers its own, also an older one")
}
