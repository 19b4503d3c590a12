// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

func TestValidateUserData(t *testing.T) {
	t.Parallel()

	const mime = "Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x\nContent-Type: text/cloud-config\n\n#cloud-config\n--x--\n"

	tests := map[string]struct {
		reason, userData string
		want             string // a part of the error; empty if there is none
	}{
		"CloudConfig":     {"what users write", "#cloud-config\nruncmd: [systemctl enable --now kubelet]\n", ""},
		"Token":           {"validate reads it before machine-controller-manager replaces it", "#cloud-config\ntoken: <<BOOTSTRAP_TOKEN>>\n", ""},
		"Empty":           {"cloud-init does nothing", "#cloud-config\n# nothing\n", ""},
		"Spaces":          {"cloud-init ignores them, and case", "\n #Cloud-Config\nruncmd: []\n", ""},
		"Duplicate":       {"Python takes the last", "#cloud-config\na: 1\na: 2\n", ""},
		"Tab":             {"YAML has none", "#cloud-config\nruncmd:\n\t- kubelet\n", "must be YAML (error near line 3)"},
		"Text":            {"cloud-init ignores it", "#cloud-config\nsystemctl enable kubelet\n", "must be an object"},
		"List":            {"cloud-init ignores it", "#cloud-config\n- systemctl\n", "must be an object"},
		"Archive":         {"os-ubuntu's", "#cloud-config-archive\n- type: text/x-shellscript\n  content: x\n", ""},
		"ArchiveObject":   {"cloud-init expects a list", "#cloud-config-archive\ntype: x\n", "must be a list of parts"},
		"Script":          {"any text", "#!/bin/sh\n\t{ [\n", ""},
		"Template":        {"it becomes YAML in the guest", "## template: jinja\n#cloud-config\n{% if a %}\n", ""},
		"MIME":            {"several parts", mime, ""},
		"JSONPatch":       {"a format of its own, whose body is a list", "#cloud-config-jsonp\n[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]", ""},
		"EscapedSlash":    {"PyYAML reads it, and JSON has it", "#cloud-config\n" + `{"runcmd":["\/usr\/bin\/x"]}`, ""},
		"Surrogates":      {"PyYAML reads them, and JSON has them", "#cloud-config\n{\"a\":\"\\ud83d\\ude00\"}", ""},
		"YAML12":          {"PyYAML ignores the version", "#cloud-config\n%YAML 1.2\n---\na: 1\n", ""},
		"MIMEOne":         {"one part", "MIME-Version: 1.0\nContent-Type: text/cloud-config\n\n#cloud-config\n", ""},
		"MIMEMailbox":     {"Python reads a message of a mailbox", "From nobody\n" + mime, ""},
		"MIMEHeaders":     {"Python may read it", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n#cloud-config", ""},
		"MIMENoBoundary":  {"no part is found", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n", "with a boundary"},
		"MIMESpace":       {"Python ignores it", strings.Replace(mime, `"x"`, `"x "`, 1), ""},
		"MIMEOtherParts":  {"no part is found", strings.ReplaceAll(mime, "--x", "--y"), "with a boundary"},
		"Gzip":            {"cloud-init decompresses it", "\x1f\x8b\x08", ""},
		"Ignition":        {"JSON", `{"ignition":{"version":"3.4.0"}}`, ""},
		"Base64":          {"a Secret is base64 already", base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")), "base64 twice"},
		"Base64Lines":     {"as base64 writes it", "I2Nsb3Vk\nLWNvbmZpZwo=\n", "base64 twice"},
		"Base64Gzip":      {"compressed before", base64.StdEncoding.EncodeToString([]byte("\x1f\x8b\x08")), "base64 twice"},
		"Base64Unknown":   {"a word may look like base64", "abcd", ""},
		"Unknown":         {"another program may read it", "join the cluster", ""},
		"None":            {"its Secret is not known", "", ""},
		"TooLongToParse":  {"its tree would take much memory", "#cloud-config\n\t" + strings.Repeat("-", 1<<16), ""},
		"ManyAliases":     {"they are not expanded", "#cloud-config\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", ""},
		"UnknownAliases":  {"YAML has an error, whose text quotes it", "#cloud-config\na: *s3cret\n", "must be YAML"},
		"HeaderInMiddle":  {"it is no header", "# a comment\n#cloud-config\n", ""},
		"CarriageReturns": {"an editor of another system", "#cloud-config\r\nruncmd:\r\n- kubelet\r\n", ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			errs := validation.ValidateUserData([]byte(tc.userData))
			if tc.want == "" {
				require.Empty(t, errs, tc.reason)

				return
			}

			require.Len(t, errs, 1, tc.reason)
			require.Equal(t, "userData", errs[0].Field)
			require.ErrorContains(t, errs[0], tc.want)
			require.NotContains(t, errs[0].Error(), "s3cret")
		})
	}
}

func TestValidateNetworkData(t *testing.T) {
	t.Parallel()

	const noCloud, configDrive = v1alpha1.CloudInitNoCloud, v1alpha1.CloudInitConfigDrive

	tests := map[string]struct {
		reason     string
		dataSource v1alpha1.CloudInitType
		text       string
		err, warns string // parts of the error and of the warning
	}{
		"Version2":         {"what users write", noCloud, "version: 2\nethernets: {enp1s0: {dhcp4: true}}\n", "", ""},
		"Version1":         {"the older format", "", "version: 1\nconfig: []\n", "", ""},
		"JSON":             {"YAML contains it", noCloud, `{"version": 2, "bonds": {}}`, "", ""},
		"Network":          {"as in a file of the image", noCloud, "network: {version: 2, ethernets: {}}\n", "", ""},
		"Tab":              {"YAML has none", noCloud, "version: 1\nconfig:\n\t- type: physical\n", "must be YAML (error near line 3)", ""},
		"Text":             {"no object", noCloud, "dhcp", "must be an object", ""},
		"Comment":          {"cloud-init uses its default", noCloud, "# later\n", "", ""},
		"Version3":         {"there is none", noCloud, "version: 3\n", "", "neither version 1 nor 2"},
		"VersionString":    {"cloud-init compares numbers", noCloud, "version: '2'\nethernets: {enp1s0: {dhcp4: true}}\n", "", "without quotes"},
		"NoVersion":        {"cloud-init ignores it", noCloud, "ethernets: {enp1s0: {dhcp4: true}}\n", "", "neither version 1 nor 2"},
		"Disabled":         {"cloud-init configures nothing, as intended", noCloud, "config: disabled\n", "", ""},
		"NetworkDisabled":  {"cloud-init configures nothing, as intended", noCloud, "network: {config: disabled}\n", "", ""},
		"Merged":           {"YAML's merge key", noCloud, "network:\n  version: 2\n  <<: {ethernets: {enp1s0: {dhcp4: true}}}\n", "", ""},
		"EscapedSlash":     {"PyYAML reads it", noCloud, `{"version": 2, "ethernets": {"enp1s0": {"addresses": ["192.0.2.1\/24"]}}}`, "", ""},
		"NoEthernets":      {"no interface", noCloud, "version: 2\n", "", "has version 2, but no ethernets"},
		"NullEthernets":    {"no interface", noCloud, "version: 2\nethernets:\n", "", "has version 2, but no ethernets"},
		"NoConfig":         {"no interface", noCloud, "version: 1\nethernets: {}\n", "", "has version 1, but no config"},
		"OpenStack":        {"the format of the other data source", noCloud, `{"links": [], "networks": []}`, "", "neither version 1 nor 2"},
		"ConfigDrive":      {"OpenStack's", configDrive, `{"links": [], "networks": [], "services": []}`, "", ""},
		"ConfigDriveEmpty": {"no interface", configDrive, "{}", "", "has no links or no networks"},
		"ConfigDriveYAML":  {"cloud-init reads JSON", configDrive, "version: 2\nethernets: {}\n", "must be a JSON object", ""},
		"ConfigDriveNull":  {"no object", configDrive, "null", "must be a JSON object", ""},
		"ConfigDriveList":  {"no object", configDrive, "[]", "must be a JSON object", ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := migratableSpec()
			spec.CloudInit = &v1alpha1.CloudInit{Type: tc.dataSource, NetworkData: tc.text}

			const path = "providerSpec.cloudInit.networkData"

			if errs := validation.ValidateProviderSpec(spec, validation.Options{}); tc.err != "" {
				require.Len(t, errs, 1, tc.reason)
				require.Equal(t, path, errs[0].Field)
				require.ErrorContains(t, errs[0], tc.err)
			} else {
				require.Empty(t, errs, tc.reason)
			}

			if warnings := validation.Warnings(spec); tc.warns != "" {
				require.Len(t, warnings, 1, tc.reason)
				require.Equal(t, path, warnings[0].Field)
				require.Contains(t, warnings[0].Detail, tc.warns)
			} else if tc.err == "" {
				require.Empty(t, warnings, tc.reason)
			}
		})
	}
}
