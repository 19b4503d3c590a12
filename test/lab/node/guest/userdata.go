// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// installation are the lines of the example's user data that install packages, which the image has.
var installation = regexp.MustCompile(`(?m)^( *(package_update|packages):.*| *curl .*| *echo 'deb .*| *apt-(get|mark) .*)\n`)

// installationLines is the number of these lines.
const installationLines = 7

// UserData returns the user data of kubernetes/example for a guest with the image, without the installation. The guest joins the cluster of an
// API server with a CA certificate, in PEM.
func UserData(example, server string, ca []byte) (string, error) {
	if found := len(installation.FindAllString(example, -1)); found != installationLines {
		return "", fmt.Errorf("the example's user data has %d lines that install packages, want %d", found, installationLines)
	}
	text := installation.ReplaceAllString(example, "")
	for placeholder, value := range map[string]string{
		"server: API_SERVER":      "server: " + server,
		"content: CA_CERTIFICATE": "content: " + base64.StdEncoding.EncodeToString(ca),
		"[CLUSTER_DNS]":           "[10.96.0.10]",
	} {
		if !strings.Contains(text, placeholder) {
			return "", fmt.Errorf("the example's user data has no %q", placeholder)
		}
		text = strings.ReplaceAll(text, placeholder, value)
	}
	return text, nil
}
