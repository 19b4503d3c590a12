// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/api/core/validation"
	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestSeed validates the Seed as gardener-apiserver does.
func TestSeed(t *testing.T) {
	t.Parallel()

	documents := strings.Split(string(seedManifest), "\n---\n")

	s := &gardencorev1beta1.Seed{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), s))
	require.Equal(t, "Seed", s.Kind)
	require.Equal(t, seedName, s.Name)

	kubernetes.GardenScheme.Default(s)

	internal := &core.Seed{}
	require.NoError(t, kubernetes.GardenScheme.Convert(s, internal, nil))
	require.Empty(t, validation.ValidateSeed(internal))
}
