// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForJSON(t *testing.T) {
	t.Parallel()

	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf,application/json": "application/json", // client-go's preference for Kubernetes' own types
		"application/json;as=Table;v=v1,application/json":      "application/json;as=Table;v=v1,application/json",
		"application/json, */*":                                "application/json, */*", // virt-api answers addvolume and removevolume with 406 to others
		"text/html":                                            "",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://localhost", nil)
		require.NoError(t, err)
		request.Header.Set("Accept", accept)

		require.Equal(t, want, forJSON(t.Context(), request).Header.Get("Accept"))
		require.Equal(t, accept, request.Header.Get("Accept"), "the caller's request is unchanged")
	}
}
