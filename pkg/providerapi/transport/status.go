// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notAStatus replaces the body of an error response that is not a metav1.Status. Such a body may be
// the page of a proxy, or a text with which the server wants to reach the shoot's status.
const notAStatus = "the response is not from a Kubernetes API server"

// keepStatus reduces an error response to its metav1.Status. Any other text would
// be repeated in error messages.
func keepStatus(resp *http.Response) error {
	defer resp.Body.Close() //nolint:errcheck // The body is only read.

	// The body after a protocol switch does not end.
	if resp.StatusCode < http.StatusOK {
		return fmt.Errorf("unexpected response %d", resp.StatusCode)
	}

	body, err := io.ReadAll(resp.Body)
	if _, excessive := ExceededBound(err); err != nil && !excessive {
		return err
	}

	body, kind := statusIn(body, err)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Type", kind)

	return nil
}

// statusIn returns the metav1.Status in a body as JSON, or notAStatus, with its content type. excess is set
// if the body exceeds a bound.
func statusIn(body []byte, excess error) (text []byte, contentType string) {
	status := &metav1.Status{}
	if excess != nil || json.Unmarshal(body, status) != nil || status.Kind != "Status" || status.APIVersion != "v1" {
		return []byte(notAStatus), "text/plain"
	}

	text, err := json.Marshal(Shortened(status))
	if err != nil {
		return []byte(notAStatus), "text/plain"
	}

	return text, jsonType
}

// Shortened returns a copy of a Status that has no part longer than an API
// server's and requests no retry delay.
func Shortened(status *metav1.Status) *metav1.Status {
	status = status.DeepCopy()
	status.ListMeta = metav1.ListMeta{}
	Shorten(&status.Message)
	Shorten((*string)(&status.Reason))

	if status.Details == nil {
		return status
	}

	status.Details.RetryAfterSeconds = 0
	status.Details.Causes = status.Details.Causes[:min(len(status.Details.Causes), maxCauses)]

	for _, text := range []*string{&status.Details.Name, &status.Details.Group, &status.Details.Kind, (*string)(&status.Details.UID)} {
		Shorten(text)
	}

	for i := range status.Details.Causes {
		cause := &status.Details.Causes[i]
		Shorten((*string)(&cause.Type))
		Shorten(&cause.Message)
		Shorten(&cause.Field)
	}

	return status
}

// Shorten shortens a text of a server to the longest that an API server writes.
func Shorten(text *string) {
	if len(*text) > maxMessage {
		*text = strings.ToValidUTF8((*text)[:maxMessage], "") + " …"
	}
}
