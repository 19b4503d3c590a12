// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/http"
	"net/url"
	"sync"
)

// Counter counts the driver's requests to the provider cluster.
type Counter struct {
	mu       sync.Mutex
	requests []string
}

// Transport is a function that implements http.RoundTripper.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Wrap counts all requests sent through a transport.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.requests = append(c.requests, verb(r.Method, r.URL))
		c.mu.Unlock()

		return next.RoundTrip(r)
	})
}

func verb(method string, u *url.URL) string {
	if u.Query().Get("watch") != "" {
		return "WATCH"
	}

	return method
}

// Take returns the requests counted since its last call.
func (c *Counter) Take() (reads, writes, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, request := range c.requests {
		switch request {
		case "WATCH":
			watches++
		case http.MethodGet:
			reads++
		default:
			writes++
		}
	}

	c.requests = nil

	return reads, writes, watches
}
