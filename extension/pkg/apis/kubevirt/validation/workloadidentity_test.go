// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

func TestValidateWorkloadIdentityConfig(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)

	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("canary")}))

	allows := func(server string) bool { return !strings.Contains(server, "attacker") }

	for name, tc := range map[string]struct {
		reason string
		change func(*api.WorkloadIdentityConfig)
		want   string
	}{
		"Valid":          {"all fields are set", func(*api.WorkloadIdentityConfig) {}, ""},
		"PublicCA":       {"public authorities need not be given", func(c *api.WorkloadIdentityConfig) { c.CertificateAuthority = "" }, ""},
		"HostName":       {"the name is optional", func(c *api.WorkloadIdentityConfig) { c.TLSServerName = "" }, ""},
		"Path":           {"a gateway serves several clusters", func(c *api.WorkloadIdentityConfig) { c.Server = "https://gateway.example.com/clusters/a" }, ""},
		"Address":        {"a certificate may have an IP address", func(c *api.WorkloadIdentityConfig) { c.TLSServerName = "10.0.0.1" }, ""},
		"NoServer":       {"tokens have a destination", func(c *api.WorkloadIdentityConfig) { c.Server = "" }, "config.server: Required"},
		"HTTP":           {"tokens must not travel in clear", func(c *api.WorkloadIdentityConfig) { c.Server = "http://canary.example.com" }, "config.server: Invalid value: must be an https URL"},
		"Credentials":    {"they would be logged", func(c *api.WorkloadIdentityConfig) { c.Server = "https://a:canary@example.com" }, "config.server: Invalid value: must be an https URL"},
		"InternalServer": {"it is the seed's", func(c *api.WorkloadIdentityConfig) { c.Server = "https://127.0.0.1" }, "is a loopback address; use an address"},
		"Forbidden":      {"tokens go to the operator's servers only", func(c *api.WorkloadIdentityConfig) { c.Server = "https://attacker.example.com" }, "config.server: Forbidden: use a server to which the operator of the garden allows tokens"},
		"NotPEM":         {"the authority is PEM, not base64", func(c *api.WorkloadIdentityConfig) { c.CertificateAuthority = "canary" }, "config.certificateAuthority: Invalid value: must contain PEM"},
		"Key":            {"a private key belongs elsewhere", func(c *api.WorkloadIdentityConfig) { c.CertificateAuthority += key }, "config.certificateAuthority: Invalid value: must contain PEM"},
		"Large":          {"the authority is copied into Secrets", func(c *api.WorkloadIdentityConfig) { c.CertificateAuthority = strings.Repeat("canary", 20000) }, "config.certificateAuthority: Too long"},
		"ServerName":     {"it is sent to the server", func(c *api.WorkloadIdentityConfig) { c.TLSServerName = "a b" }, "config.tlsServerName: Invalid value"},
		"NoNamespace":    {"machines have a namespace", func(c *api.WorkloadIdentityConfig) { c.Namespace = "" }, "config.namespace: Required"},
		"Namespace":      {"it would change the path of requests", func(c *api.WorkloadIdentityConfig) { c.Namespace = "a/b" }, "config.namespace: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			config := &api.WorkloadIdentityConfig{Server: "https://provider.example.com:6443", CertificateAuthority: authority, TLSServerName: "api.example.com", Namespace: "machines"}
			tc.change(config)

			err := ValidateWorkloadIdentityConfig(config, false, allows, field.NewPath("config")).ToAggregate()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorContains(t, err, tc.want, tc.reason)
			require.NotContains(t, err.Error(), "canary", tc.reason)
		})
	}

	internal := &api.WorkloadIdentityConfig{Server: "https://127.0.0.1", Namespace: "machines"}
	require.Empty(t, ValidateWorkloadIdentityConfig(internal, true, allows, nil), "the operator allows internal servers")
}

func TestValidateWorkloadIdentityConfigUpdate(t *testing.T) {
	t.Parallel()

	old := &api.WorkloadIdentityConfig{Server: "https://old.example.com", Namespace: "machines"}

	require.Empty(t, ValidateWorkloadIdentityConfigUpdate(&api.WorkloadIdentityConfig{Server: "https://new.example.com", Namespace: "machines"}, old, nil))
	require.ErrorContains(t, ValidateWorkloadIdentityConfigUpdate(&api.WorkloadIdentityConfig{Server: "https://old.example.com", Namespace: "others"}, old, field.NewPath("config")).ToAggregate(),
		"config.namespace: Forbidden: must remain machines")
}
