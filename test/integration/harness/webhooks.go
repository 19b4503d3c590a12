// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"io"
	"net/http"
	"regexp"

	"k8s.io/client-go/rest"
)

// lostWebhook matches the response to a request of which an API server lost the connection to a webhook, or got no response from it in
// time. The API server repeats no request over a connection that the webhook has just closed because it was idle.
var lostWebhook = regexp.MustCompile(`failed calling webhook .*(broken pipe|EOF|connection reset by peer|deadline exceeded|timeout)`)

// repetitions bounds how often a request is repeated: a webhook responds late as long as the machine has no processor for it.
const repetitions = 5

// repeating returns the configuration for clients of tests, which repeat such a request. It has had no effect: webhooks are called
// before anything is stored.
func repeating(config *rest.Config) *rest.Config {
	repeats := rest.CopyConfig(config)
	repeats.Wrap(func(next http.RoundTripper) http.RoundTripper { return webhookRepeater{next} })

	return repeats
}

type webhookRepeater struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r webhookRepeater) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)

	for range repetitions {
		if err != nil || request.GetBody == nil || !isLost(response) {
			break
		}

		again := request.Clone(request.Context())
		if again.Body, err = request.GetBody(); err != nil {
			return nil, err
		}

		response, err = r.next.RoundTrip(again)
	}

	return response, err
}

// isLost reports whether an API server has lost a webhook, and keeps the response for its reader.
func isLost(response *http.Response) bool {
	if response.StatusCode != http.StatusInternalServerError {
		return false
	}

	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it has been read
	response.Body = io.NopCloser(bytes.NewReader(text))

	return err == nil && lostWebhook.Match(text)
}
