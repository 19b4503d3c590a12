// Package transport is the HTTP client for an API server that is not trusted: it bounds the time, the
// size and the content of each response, and removes what a server could use to influence its
// client. Package providerapi sends the driver's requests through it, and the Gardener extension its
// own. It must not know a kind of objects.
package transport

import (
	"cmp"
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
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause may quote certificates and keys.
		return nil, nil, errors.New("the certificates or the key of the current context are invalid: they must be PEM, and the key must match the certificate")
	}

	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	// The process's proxy: a kubeconfig must not set one.
	proxy := utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)

	dial, err := dialTo(config.Host, proxy, servers)
	if err != nil {
		return nil, nil, err
	}

	// HTTP/1 only: over HTTP/2, the transport reads ahead megabytes of each response, even of those
	// that wait for a slot.
	base := &http.Transport{
		Proxy:                  proxy,
		DialContext:            dial,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        settings,
		MaxIdleConnsPerHost:    25,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}

	trip, err := rest.HTTPWrappersForConfig(config, &contained{next: base, semaphores: large.of(config.Host)})
	if err != nil {
		return nil, nil, errors.New("the credentials of the current context are invalid")
	}

	return &http.Client{Transport: trip, CheckRedirect: refuseRedirect}, base, nil
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
	watch := isWatch(r)
	ctx, timer := timed(r.Context(), watch)

	resp, err := c.next.RoundTrip(forJSON(ctx, r))
	if err == nil {
		err = c.contain(ctx, resp, watch, timer)
	}

	if err != nil {
		timer.end()

		return nil, timer.explain(ctx, err)
	}

	timer.begun()

	return resp, nil
}

// contain bounds a response. The timer ends when the response body is closed.
func (c *contained) contain(ctx context.Context, resp *http.Response, watch bool, timer *timer) error {
	// client-go logs both at -v=8, whatever the server put into them.
	resp.Header, resp.Status = plainHeader(resp.Header), http.StatusText(resp.StatusCode)

	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		defer timer.end()

		return keepStatus(resp)
	}

	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != jsonType {
		defer timer.end()

		return requireEmpty(resp)
	}

	slot := c.semaphores.slotOf(ctx)

	limit := cmp.Or(slot.Limit, maxResponse)
	if watch {
		limit = maxWatch
	}

	// MaxBytesReader is meant for requests, but also works for responses.
	resp.Body = &responseBody{
		ReadCloser: http.MaxBytesReader(nil, resp.Body, limit), watch: watch, slot: slot, ctx: ctx, timer: timer,
	}

	return nil
}

// requireEmpty accepts a response without a body, which has no content type: KubeVirt's subresources
// answer so.
func requireEmpty(resp *http.Response) error {
	_, err := resp.Body.Read(make([]byte, 1))
	if closed := resp.Body.Close(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the response is not JSON"), closed)
	}

	resp.Body, resp.ContentLength = http.NoBody, 0

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
