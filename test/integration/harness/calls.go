// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/http"
	"net/url"
	"strings"
)

// MadeBy names a request of the driver: the current method and its request to the API server.
func MadeBy(r *http.Request) string {
	return MethodOf(r.Context()) + ": " + CallOf(r.Method, r.URL)
}

// CallOf names a request to the API server: the verb, the type of the objects, and the field by
// which they are selected.
func CallOf(method string, u *url.URL) string {
	_, rest, _ := strings.Cut(u.Path, "/namespaces/")
	parts := strings.Split(rest, "/")

	if len(parts) < 2 {
		return method + " " + u.Path
	}

	resource := parts[1]
	collection := len(parts) == 2

	switch {
	case u.Query().Get("watch") != "":
		return "watch " + resource
	case method == http.MethodGet && collection:
		return "list " + resource + byField(u.Query().Get("fieldSelector"))
	case method == http.MethodDelete && collection:
		return "deletecollection " + resource
	default:
		return map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[method] + " " + resource
	}
}

func byField(selector string) string {
	field, _, selected := strings.Cut(selector, "=")
	if !selected {
		return ""
	}

	return " by " + field
}
