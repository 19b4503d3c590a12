// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

// canary is text in servers' responses that no error may repeat.
const canary = "canary-7f3a9c51"

type object = map[string]any

func requireSilent(t *testing.T, err error) {
	t.Helper()

	for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:16]} {
		require.NotContains(t, err.Error(), secret, "errors reach the shoot's status")
	}
}
