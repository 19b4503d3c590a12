// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// TestAuthenticationConfiguration validates the file as kube-apiserver does, which keeps its previous configuration if
// the new one is invalid.
func TestAuthenticationConfiguration(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("authentication-configuration.yaml")
	require.NoError(t, err)

	// The certificate is a placeholder.
	raw = regexp.MustCompile(`(?s) +certificateAuthority: \|\n.*-----END CERTIFICATE-----\n`).ReplaceAll(raw, nil)

	scheme := runtime.NewScheme()
	install.Install(scheme)

	config := &apiserver.AuthenticationConfiguration{}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	require.NoError(t, runtime.DecodeInto(decoder, raw, config))
	require.Empty(t, validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), config, nil))
}
