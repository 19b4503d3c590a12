// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// TestReplaceURLs_Credentials tests URLs as users write them and as components quote them.
func TestReplaceURLs_Credentials(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ says, want string }{
		"None":           {`Get "https://example.com:8443/a/b.qcow2": got 404`, `Get "https://example.com:8443/a/b.qcow2": got 404`},
		"Reference":      {"docker://registry.example.com:5000/a:1 is missing", "docker://registry.example.com:5000/a:1 is missing"},
		"Digest":         {"pull docker://registry.example.com/a@sha256:0a1b failed", "pull docker://registry.example.com/a@sha256:0a1b failed"},
		"DigestAndUser":  {"pull docker://me:geheim@registry.example.com/a@sha256:0a1b failed", "pull docker://registry.example.com/a@sha256:0a1b failed"},
		"User":           {"get http://geheim@example.com/x failed", "get http://example.com/x failed"},
		"Password":       {`Get "https://me:geheim@example.com/x": EOF`, `Get "https://example.com/x": EOF`},
		"Slash":          {"get http://me:ge/heim@example.com/x failed", "get http://…@example.com/x failed"},
		"Slashes":        {"get http://me://geheim//@example.com/x failed", "get http://…@example.com/x failed"},
		"DigitsAndSlash": {"get http://me:8080/geheim@example.com/x failed", "get http://…@example.com/x failed"},
		"At":             {"get http://me:ge@heim@example.com/x failed", "get http://example.com/x failed"},
		"AtAndSlash":     {"get http://me:ge@he/im@example.com/x failed", "get http://…@example.com/x failed"},
		"Question":       {"get http://me:ge?heim@example.com/x failed", "get http://… failed"},
		"Hash":           {"get http://me:ge#heim@example.com/x failed", "get http://… failed"},
		"HashAndSlash":   {"get http://me:ge/h#eim@example.com/x failed", "get http://… failed"},
		"PercentEncoded": {"get http://me:ge%2Fh%40eim@example.com/x failed", "get http://example.com/x failed"},
		"Brackets":       {"get http://me:geheim@[::1]:80/x failed", "get http://[::1]:80/x failed"},
		"Signature":      {`Get "https://example.com/x?X-Amz-Signature=geheim&y=1": got 403`, `Get "https://example.com/x": got 403`},
		"Fragment":       {`Get "https://example.com/x#geheim": got 403`, `Get "https://example.com/x": got 403`},
		"AtInTheQuery":   {`Get "https://example.com/x?mail=me@geheim": got 403`, `Get "https://example.com/x": got 403`},
		"Several":        {"http://a:geheim@b/c then http://d:ge/heim@e/f, (https://g/h?geheim)", "http://b/c then http://…@e/f, (https://g/h"},
		"Adjacent":       {`"http://a:geheim@b","http://c:ge/heim@d"`, `"http://b","http://…@d"`},
		"Space":          {`unable to parse endpoint "https://me:ge heim@example.com/x": no`, `unable to parse endpoint "https://example.com/x": no`},
		"Quote":          {`parse "https://me:ge\"heim@example.com/x": no`, `parse "https://example.com/x": no`},
		"QuotedTwice":    {`{"message":"parse \"https://me:ge\\\"heim@example.com/x\": got 404"}`, `{"message":"parse \"https://example.com/x\": got 404"}`},
		"NeverClosed":    {`parse "https://me:ge heim@example.com/x`, `parse "https://example.com/x`},
		"Port": {
			`unable to parse endpoint "https://me:ge/heim@example.com/x": parse "https://me:ge/heim@example.com/x": invalid port ":ge" after host`,
			`unable to parse endpoint "https://…@example.com/x": parse "https://…@example.com/x": invalid port after host`,
		},
		"Escape": {`parse "https://me:ge%heim@example.com/x": invalid URL escape "%he"`, `parse "https://example.com/x": invalid URL escape`},
		"Empty":  {"http:// and ://", "http:// and ://"},
		"NoHost": {"get http://?geheim failed", "get http:// failed"},
		"NoUser": {"get http://@example.com/x failed", "get http://example.com/x failed"},
		"Nested": {`{"message":"Get \"https://example.com/x?geheim\": got 403"}`, `{"message":"Get \"https://example.com/x\": got 403"}`},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			words, _, _ := strings.Cut(importSays(tc.says).Cause(now, grace).Err.Message, "; ")
			require.Equal(t, "DataVolume disk: "+tc.want, words)

			for _, piece := range []string{"geheim", "heim", "%he"} {
				require.NotContains(t, words, piece)
			}
		})
	}
}

// TestReplaceURLs_Hostile passes long inputs that would take minutes if the time were quadratic in the
// length.
func TestReplaceURLs_Hostile(t *testing.T) {
	t.Parallel()

	const length = 1 << 17

	for _, piece := range []string{
		"://", "a://", `"a://`, `\"a://`, `"a://\`, `\\\"a://@`, "@", "a://@", "a://b@c/", "a://b?", "a://b?@", "a", "/@sha256:0", `invalid port "`,
		`invalid port ":a" `, `invalid URL escape "`, " preemption: ", "1 Insufficient a.b/c, ",
	} {
		words := strings.Repeat(piece, length/len(piece))
		require.NotNil(t, importSays(words).Cause(now, grace), piece)
		require.NotNil(t, unschedulable("0/1 nodes are available: "+words, ago(time.Hour)).Cause(now, grace), piece)
	}
}

// TestCause_KeywordsInNames tests URLs and names that contain the keywords by which causes are
// identified.
func TestCause_KeywordsInNames(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ says, want string }{
		"Certificate": {`Get "https://certificate.example.com/x509: /a": expected status code 200, got 500`, "ImportFailed"},
		"Checksum":    {"could not read https://checksum.example.com/checksum: unexpected EOF", "ImportFailed"},
		"Timeout":     {"docker://timeout.example.com/unauthorized:1: unexpected EOF", "ImportFailed"},
		"Host":        {"pinging container registry unauthorized.timeout.example.com: unexpected EOF", "ImportFailed"},
		"Path":        {"open /data/certificate/nosuchkey/checksum: unexpected EOF", "ImportFailed"},
		"NotFound":    {`Get "https://certificate.example.com/timeout": expected status code 200, got 404. Status: 404 Not Found`, "ImageNotFound"},
		"Untrusted":   {`Get "https://timeout.example.com/404": tls: failed to verify certificate: x509: certificate signed by unknown authority`, "ImageCertificateUntrusted"},
		"Curl":        {"nbdkit: curl[1]: error: problem doing HEAD request: SSL certificate problem: unable to get local issuer certificate", "ImageCertificateUntrusted"},
		"Resolve":     {"dial tcp: lookup certificate.example.com: no such host", "ImageUnreachable"},
		"Slow":        {`Get "https://checksum.example.com/": net/http: TLS handshake timeout`, "ImageUnreachable"},
		"Mismatch":    {"Unable to process data: checksum validation failed: checksum mismatch: expected sha256:0, got sha256:1", "ImageCorrupt"},
		"Registry":    {"reading manifest 1 in timeout.example.com/a: unauthorized: access to the requested resource is not authorized", "ImageUnauthorized"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, importSays(tc.says).Cause(now, grace).Err.Reason)
		})
	}

	pull := podSays("BackOff", "Back-off restarting failed container compute in pod virt-launcher-pull-errimagepull-1", time.Hour)
	require.Nil(t, pull.Cause(now, grace), "a machine of that name")

	failed := volumeSays(cdiv1beta1.DataVolumeRunning, "ImagePullFailed", "failed to pull image: docker://certificate.example.com/checksum:1: EOF", ago(time.Hour))
	require.Equal(t, "ImagePullFailed", failed.Cause(now, grace).Err.Reason)
}
