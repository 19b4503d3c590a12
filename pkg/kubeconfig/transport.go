package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// maxAnswer bounds the body of an answer, in bytes, after decompression. 500 VirtualMachines' metadata have a tenth. It bounds
	// a whole watch too: most of the driver's follow one object, for minutes; those of all instances break off there now and then,
	// and are begun again where they were.
	maxAnswer = 16 << 20
	// maxStatus bounds the body of an error.
	maxStatus = 256 << 10
	// maxHeader bounds the headers of an answer.
	maxHeader = 256 << 10
	// notAStatus stands for the body of an error that is no metav1.Status: a proxy's page, or whatever the server likes to be
	// repeated in the shoot's status.
	notAStatus = "the answer is not one of a Kubernetes API server"
)

// connections returns the client that speaks to one provider cluster, and what holds its connections. client-go's own transports
// are shared and kept for ever, one for each certificate that a kubeconfig ever held.
func connections(config *rest.Config) (*http.Client, *http.Transport, error) {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		// The cause may quote certificates and keys.
		return nil, nil, errors.New("the certificates or the key of the current context cannot be used: they must be PEM, and the key that of the certificate")
	}

	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	base := utilnet.SetTransportDefaults(&http.Transport{
		Proxy:                  http.ProxyFromEnvironment, // Of the process, not of the kubeconfig.
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        settings,
		MaxIdleConnsPerHost:    25,
		MaxResponseHeaderBytes: maxHeader,
	})

	trip, err := rest.HTTPWrappersForConfig(config, &contained{next: base})
	if err != nil {
		return nil, nil, errors.New("the credentials of the current context cannot be used")
	}

	return &http.Client{Transport: trip, CheckRedirect: refuseRedirect}, base, nil
}

// refuseRedirect keeps the credentials from a host that nobody named.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// contained keeps what an untrusted server answers within bounds.
type contained struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *contained) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(forJSON(r))
	if err != nil {
		return nil, err
	}

	// client-go prints both at -v=8, whatever the server put into them.
	resp.Header, resp.Status = plainHeader(resp.Header), http.StatusText(resp.StatusCode)

	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent {
		return onlyStatus(resp)
	}

	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != jsonType {
		return nil, errors.Join(errors.New("the answer is not JSON"), resp.Body.Close())
	}

	// MaxBytesReader was made for requests, and does for answers what is needed.
	resp.Body = &elements{ReadCloser: http.MaxBytesReader(nil, resp.Body, maxAnswer)}

	return resp, nil
}

// jsonType is the one language in which answers are read: how much memory one takes can be told while it is read.
const jsonType = "application/json"

// forJSON returns a request that asks for nothing else. client-go prefers protobuf for what Kubernetes itself defines, and for metadata.
func forJSON(r *http.Request) *http.Request {
	accepted := slices.DeleteFunc(strings.Split(r.Header.Get("Accept"), ","), func(kind string) bool {
		return !strings.HasPrefix(strings.TrimSpace(kind), jsonType)
	})

	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(accepted, ","))

	return r
}

// WrappedRoundTripper lets Kubernetes' libraries look through.
func (c *contained) WrappedRoundTripper() http.RoundTripper { return c.next }

// plainHeader returns what the driver's clients need of an answer's header. Without Location nobody follows, or quotes, a redirect;
// without Warning nobody repeats texts of the server's choice.
func plainHeader(all http.Header) http.Header {
	header := http.Header{}

	for _, key := range []string{"Content-Type", "Retry-After"} {
		if value := all.Get(key); value != "" {
			header.Set(key, value)
		}
	}

	return header
}

// onlyStatus returns an error's answer with its metav1.Status alone. Any other text would be repeated in error messages.
func onlyStatus(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close() //nolint:errcheck // Nothing is written.

	// What switches protocols has no end.
	if resp.StatusCode < http.StatusOK {
		return nil, fmt.Errorf("unexpected answer %d", resp.StatusCode)
	}

	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	if err != nil {
		return nil, err
	}

	body, kind := statusIn(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Type", kind)

	return resp, nil
}

// statusIn returns the metav1.Status of a body as JSON, or a text of our own, with its content type.
func statusIn(body []byte) (text []byte, contentType string) {
	status := &metav1.Status{}
	if len(body) > maxStatus || json.Unmarshal(body, status) != nil || status.Kind != "Status" || status.APIVersion != "v1" {
		return []byte(notAStatus), "text/plain"
	}

	text, err := json.Marshal(status)
	if err != nil {
		return []byte(notAStatus), "text/plain"
	}

	return text, jsonType
}
