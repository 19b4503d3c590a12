// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestObjectName(t *testing.T) {
	t.Parallel()

	fits := strings.Repeat("m", validation.DNS1123LabelMaxLength-len("-root"))
	require.Equal(t, fits+"-root", objectName(fits, "root"), "the longest name that fits")

	for _, machine := range []string{fits + "m", strings.Repeat("m", 253)} {
		name := objectName(machine, "root")
		require.Len(t, name, validation.DNS1123LabelMaxLength)
		require.Empty(t, validation.IsDNS1123Label(name))
		require.NotEqual(t, name, objectName(machine, "data"), "the hash is of the whole name")
	}
}
