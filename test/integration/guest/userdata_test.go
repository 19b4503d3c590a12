// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// installation are the lines of the example's user data that install packages. The guests' image has
// them, since guests have no internet access; docs/getting-started.md says to remove these lines then.
var installation = regexp.MustCompile(`(?m)^( *(package_update|packages):.*| *curl .*| *echo 'deb .*| *apt-(get|mark) .*)\n`)

// exampleUserData returns the user data of kubernetes/example, with the placeholders set as in
// docs/getting-started.md and without the installation.
func exampleUserData(t *testing.T, s *harness.Shoot) string {
	t.Helper()

	var secret corev1.Secret

	require.NoError(t, yaml.UnmarshalStrict(s.Manifest(t, "example/userdata.yaml")[0], &secret))

	server, err := url.Parse(harness.Lab().Control.ServerURL)
	require.NoError(t, err)

	text := secret.StringData["userData"]
	require.Len(t, installation.FindAllString(text, -1), 7, "the lines that install packages")

	text = installation.ReplaceAllString(text, "")
	for placeholder, value := range map[string]string{
		"server: API_SERVER":      fmt.Sprintf("server: https://%s:%s", guest.ServerAddress, server.Port()),
		"content: CA_CERTIFICATE": "content: " + base64.StdEncoding.EncodeToString(harness.Lab().Control.Config().CAData),
		"[CLUSTER_DNS]":           "[10.96.0.10]",
	} {
		text = harness.MustReplace(text, placeholder, value)
	}

	return text
}

// inFormat returns the example's user data in another format.
func inFormat(format func(t *testing.T, config string) string) func(*testing.T, *harness.Shoot) string {
	return func(t *testing.T, s *harness.Shoot) string {
		t.Helper()

		return format(t, exampleUserData(t, s))
	}
}

// separate returns the example's user data as two parts: a cloud-config with its files, and a script
// with its command. Without a host name, the guest has that of the metadata.
func separate(t *testing.T, config string) (files, script string) {
	t.Helper()

	files, command, found := strings.Cut(config, "runcmd:\n")
	require.True(t, found)

	files = harness.MustReplace(files, "hostname: <<MACHINE_NAME>>\n", "")
	command = strings.Trim(strings.TrimSpace(command), "-[] ")
	require.Equal(t, "/usr/local/sbin/join-cluster", command)

	return files, "#!/bin/sh\nexec " + command + "\n"
}

// multipart returns the example's user data as a MIME message.
func multipart(t *testing.T, config string) string {
	t.Helper()

	files, script := separate(t, config)

	const boundary = "==part=="

	part := func(kind, text string) string {
		return "--" + boundary + "\nContent-Type: " + kind + "\nMIME-Version: 1.0\n\n" + text + "\n"
	}

	return "Content-Type: multipart/mixed; boundary=\"" + boundary + "\"\nMIME-Version: 1.0\n\n" +
		part("text/cloud-config", files) + part("text/x-shellscript", script) + "--" + boundary + "--\n"
}

// archive returns the example's user data as an archive of cloud-init's own format.
func archive(t *testing.T, config string) string {
	t.Helper()

	files, script := separate(t, config)

	parts, err := yaml.Marshal([]map[string]string{
		{"type": "text/cloud-config", "content": files}, {"type": "text/x-shellscript", "content": script},
	})
	require.NoError(t, err)

	return "#cloud-config-archive\n" + string(parts)
}

// shellScript returns the example's user data as a script, which writes the files itself. The guest has
// its host name from the metadata only.
func shellScript(t *testing.T, config string) string {
	t.Helper()

	var parsed struct {
		Files []struct {
			Path        string `json:"path"`
			Permissions string `json:"permissions"`
			Encoding    string `json:"encoding"`
			Content     string `json:"content"`
		} `json:"write_files"`
		Commands [][]string `json:"runcmd"`
	}

	require.NoError(t, yaml.Unmarshal([]byte(config), &parsed))
	require.Len(t, parsed.Files, 7)
	require.Equal(t, [][]string{{"/usr/local/sbin/join-cluster"}}, parsed.Commands)

	var b strings.Builder

	b.WriteString("#!/bin/sh\nset -eu\n")

	for _, file := range parsed.Files {
		decode := map[string]string{"": "cat", "b64": "base64 --decode"}[file.Encoding]
		require.NotEmpty(t, decode, file.Encoding)
		fmt.Fprintf(&b, "%s << 'END' | install -D --mode=%s /dev/stdin %s\n%s\nEND\n",
			decode, cmp.Or(file.Permissions, "0644"), file.Path, strings.TrimSuffix(file.Content, "\n"))
	}

	fmt.Fprintf(&b, "exec %s\n", parsed.Commands[0][0])

	return b.String()
}

// applyUserData creates the Secrets to which the classes of harness.AddPool refer.
func applyUserData(t *testing.T, s *harness.Shoot, userData string) {
	t.Helper()

	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "cloudprovider"}, Data: map[string][]byte{"kubeconfig": s.ProviderKubeconfig}},
		{ObjectMeta: metav1.ObjectMeta{Name: "example-worker-userdata"}, Data: map[string][]byte{"userData": []byte(userData)}},
	} {
		_, err := s.Target.CoreV1().Secrets(s.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}
