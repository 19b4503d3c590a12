// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package transport is the HTTP client for an API server that is not trusted: it bounds the time and the
// memory of each response, and removes what a server could use to influence its
// client. Package providerapi sends the driver's requests through it, and the Gardener extension its
// own. It must not depend on a kind of objects.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// New returns the HTTP client for the API server of a configuration, and its transport, whose idle
// connections the caller closes. client-go's own transports are shared and never dropped, one for
// each certificate that a kubeconfig ever contained. Errors do not quote the configuration.
func New(config *rest.Config, large *Semaphores, servers Servers) (*http.Client, *http.Transport, error) {
	connections, err := NewConnections(config, servers)
	if err != nil {
		return nil, nil, err
	}

	client, err := NewClient(config, connections, large)

	return client, connections, err
}

// NewConnections returns the transport for the server and the certificates of a configuration. It does
// not depend on the token or password: clients with several of them can share it.
func NewConnections(config *rest.Config, servers Servers) (*http.Transport, error) {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause may quote certificates and keys.
		return nil, errors.New("the certificates or the key of the current context are invalid: they must be PEM, and the key must match the certificate")
	}

	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	// The process's proxy: a kubeconfig must not set one.
	proxy := utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)

	dial, err := dialTo(config.Host, proxy, servers)
	if err != nil {
		return nil, err
	}

	// HTTP/1 only: over HTTP/2, the transport reads ahead megabytes of each response, even of those
	// that wait for a slot.
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dial,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        settings,
		MaxIdleConnsPerHost:    maxIdleConnections,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // Few compressed bytes may contain many, or none without an end.
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}, nil
}

// NewClient returns the HTTP client that sends requests with the credentials of a configuration over
// connections that NewConnections returned for the same server and certificates.
func NewClient(config *rest.Config, connections *http.Transport, large *Semaphores) (*http.Client, error) {
	trip, err := rest.HTTPWrappersForConfig(config, &contained{next: connections, semaphores: large.of(config.Host)})
	if err != nil {
		return nil, errors.New("the credentials of the current context are invalid")
	}

	return &http.Client{Transport: trip, CheckRedirect: refuseRedirect}, nil
}

// refuseRedirect keeps the credentials from being sent to a host that the kubeconfig does not name.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// contained bounds the size and the duration of responses from an untrusted server.
type contained struct {
	next       http.RoundTripper
	semaphores semaphores
}

// RoundTrip implements http.RoundTripper.
func (c *contained) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(r.URL.RequestURI()) > maxURL {
		return nil, errURL
	}

	ctx, timer := timed(r.Context(), isWatch(r))

	resp, err := c.next.RoundTrip(forJSON(ctx, r))
	if err == nil {
		err = c.contain(ctx, r, resp, timer)
	}

	if err != nil {
		timer.end()

		return nil, timer.explain(ctx, err)
	}

	timer.begun()

	return resp, nil
}

// contain bounds a response. The timer ends when the response body is closed.
func (c *contained) contain(ctx context.Context, r *http.Request, resp *http.Response, timer *timer) error {
	isJSON := resp.Header.Get("Content-Encoding") == "" && mediaType(resp) == jsonType
	// client-go logs both at -v=8, whatever the server put into them.
	resp.Header = plainHeader(resp.Header)
	resp.Status = http.StatusText(resp.StatusCode)

	failed := resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent

	slot := c.semaphores.slotOf(ctx)
	if failed {
		slot = nil
	}

	body := bodyOf(ctx, resp, isWatch(r) && !failed, slot, timer)
	body.most += costOfByte * expected(ctx, r)

	switch {
	case failed:
		resp.Body = body

		return keepStatus(resp)
	case r.Method == http.MethodDelete:
		return drop(resp, timer)
	case expectsText(ctx):
		body.plain = true
	case !isJSON:
		defer timer.end()

		return requireEmpty(resp)
	}

	resp.Body = body

	return nil
}

// expectedKey is the context key of the size of an expected response.
type expectedKey struct{}

// Expect returns a context for a request whose response contains so many bytes that the caller has already.
// They count less than others.
func Expect(ctx context.Context, bytes int) context.Context {
	return context.WithValue(ctx, expectedKey{}, int64(bytes))
}

// textKey is the context key of a request for text.
type textKey struct{}

// ExpectText returns a context for a request whose response is text, such as a log, of which at most MaxText
// bytes are read.
func ExpectText(ctx context.Context) context.Context {
	return context.WithValue(ctx, textKey{}, true)
}

func expectsText(ctx context.Context) bool {
	text, _ := ctx.Value(textKey{}).(bool)

	return text
}

// expected returns the number of bytes of a response that its caller has already: those of Expect, and
// those of an object that is written.
func expected(ctx context.Context, r *http.Request) int64 {
	known, _ := ctx.Value(expectedKey{}).(int64)

	return known + max(r.ContentLength, 0)
}

// drop reads the response to a deletion, and drops it: it contains the deleted objects, whose number and
// size the request does not determine, and no client needs them.
func drop(resp *http.Response, timer *timer) error {
	defer timer.end()

	_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxDropped))
	closed := resp.Body.Close()
	resp.Body = http.NoBody
	resp.ContentLength = 0

	return errors.Join(err, closed)
}

func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}

	return kind
}

// requireEmpty accepts a response without a body, which has no content type: KubeVirt's subresources
// answer so.
func requireEmpty(resp *http.Response) error {
	_, err := resp.Body.Read(make([]byte, 1))
	if closed := resp.Body.Close(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the response is not JSON"), closed)
	}

	resp.Body = http.NoBody
	resp.ContentLength = 0

	return nil
}

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// jsonType is the only accepted content type: the memory that JSON takes can
// be estimated while it is read.
const jsonType = "application/json"

// anyType is what clients accept, too. KubeVirt answers requests to attach and detach volumes only if it
// may choose the type: their responses have none.
const anyType = "*/*"

// forJSON returns a request that accepts only JSON. client-go prefers protobuf for Kubernetes' own
// types and for metadata.
func forJSON(ctx context.Context, r *http.Request) *http.Request {
	accepted := slices.DeleteFunc(strings.Split(r.Header.Get("Accept"), ","), func(kind string) bool {
		kind = strings.TrimSpace(kind)

		return kind != anyType && !strings.HasPrefix(kind, jsonType)
	})

	r = r.Clone(ctx)
	r.Header.Set("Accept", strings.Join(accepted, ","))

	return r
}

// WrappedRoundTripper lets Kubernetes' libraries unwrap the transport.
func (c *contained) WrappedRoundTripper() http.RoundTripper { return c.next }

// plainHeader returns the headers that the driver's clients need. Without Location, clients cannot
// follow or quote a redirect; without Warning, they cannot repeat text chosen by the server;
// without Retry-After, they cannot sleep for as long as a server wants: the caller decides about
// retries.
func plainHeader(all http.Header) http.Header {
	header := http.Header{}

	if kind := all.Get("Content-Type"); kind != "" {
		header.Set("Content-Type", kind)
	}

	return header
}
