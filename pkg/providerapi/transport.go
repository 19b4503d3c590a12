package providerapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// maxHeader bounds the headers of an answer.
	maxHeader = 256 << 10
	// watchBegins is how long a watch may take to begin. An API server sends the headers of its answer at once.
	watchBegins = 15 * time.Second
	// watchLasts bounds a watch that its server does not end. API servers end those that name a time after ten minutes at most.
	watchLasts = 11 * time.Minute
	// requestTimeout bounds one request. An admission webhook may take 10 s, and there are several.
	requestTimeout = 30 * time.Second
)

// connections returns the client that speaks to one provider cluster, and what holds its connections. client-go's own transports
// are shared and kept for ever, one for each certificate that a kubeconfig ever held.
func connections(config *rest.Config, large places) (*http.Client, *http.Transport, error) {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause may quote certificates and keys.
		return nil, nil, errors.New("the certificates or the key of the current context cannot be used: they must be PEM, and the key that of the certificate")
	}

	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	// HTTP/1 only: over HTTP/2 the transport reads megabytes of each answer ahead, also of those that wait for their turn.
	base := &http.Transport{
		Proxy:                  utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment), // Of the process, not of the kubeconfig.
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        settings,
		MaxIdleConnsPerHost:    25,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}

	trip, err := rest.HTTPWrappersForConfig(config, &contained{next: base, places: large})
	if err != nil {
		return nil, nil, errors.New("the credentials of the current context cannot be used")
	}

	return &http.Client{Transport: trip, CheckRedirect: refuseRedirect}, base, nil
}

// refuseRedirect keeps the credentials from a host that nobody named.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// contained keeps what an untrusted server answers within bounds, and the time that it takes.
type contained struct {
	next   http.RoundTripper
	places places
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

// contain puts bounds around an answer. The timer ends when its body is closed.
func (c *contained) contain(ctx context.Context, resp *http.Response, watch bool, timer *timer) error {
	// client-go prints both at -v=8, whatever the server put into them.
	resp.Header, resp.Status = plainHeader(resp.Header), http.StatusText(resp.StatusCode)

	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		defer timer.end()

		return keepStatus(resp)
	}

	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != jsonType {
		return errors.Join(errors.New("the answer is not JSON"), resp.Body.Close())
	}

	turn := c.places.turnOf(ctx)

	limit := cmp.Or(turn.limit, maxAnswer)
	if watch {
		limit = maxWatch
	}

	// MaxBytesReader was made for requests, and does for answers what is needed.
	resp.Body = &answer{
		ReadCloser: http.MaxBytesReader(nil, resp.Body, limit), watch: watch, turn: turn, ctx: ctx, timer: timer,
	}

	return nil
}

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// jsonType is the one language in which answers are read: how much memory one takes can be told while it is read.
const jsonType = "application/json"

// forJSON returns a request that asks for nothing else. client-go prefers protobuf for what Kubernetes itself defines, and for metadata.
func forJSON(ctx context.Context, r *http.Request) *http.Request {
	accepted := slices.DeleteFunc(strings.Split(r.Header.Get("Accept"), ","), func(kind string) bool {
		return !strings.HasPrefix(strings.TrimSpace(kind), jsonType)
	})

	r = r.Clone(ctx)
	r.Header.Set("Accept", strings.Join(accepted, ","))

	return r
}

// WrappedRoundTripper lets Kubernetes' libraries look through.
func (c *contained) WrappedRoundTripper() http.RoundTripper { return c.next }

// plainHeader returns what the driver's clients need of an answer's header. Without Location no client follows, or quotes, a redirect;
// without Warning none repeats texts of the server's choice; without Retry-After none sleeps for as long as a server likes: how requests are
// repeated is decided in request.go, and by the reflectors of follow.go.
func plainHeader(all http.Header) http.Header {
	header := http.Header{}

	if kind := all.Get("Content-Type"); kind != "" {
		header.Set("Content-Type", kind)
	}

	return header
}
