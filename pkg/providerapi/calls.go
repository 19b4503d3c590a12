// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Call is one request to the API server of a provider cluster. A retry is a call of its own.
type Call struct {
	// Service is the requested operation, such as "virtualmachines_create": the resource and the
	// verb of the permission that it requires. It never contains an object's name. The resource is
	// "other" for a path that is not a resource.
	Service string
	// Duration is the time until the response began; for a watch, until the watch was established.
	Duration time.Duration
	// Failed reports whether the server did not fulfill the request or did not respond. Expected
	// responses are not failures: a named object that does not exist (404 for anything but a
	// create), an object that already exists or has changed (409), an expired resource version
	// (410), and an exhausted quota (403), which concerns cluster-autoscaler. A request that the
	// driver itself cancelled is not a failure either. Any other unsuccessful response is a
	// failure, including a missing permission (403) and too many requests (429).
	Failed bool
}

// observed is a transport that reports every request. It is the outermost layer: a response that
// another layer rejects also counts as a failure.
type observed struct {
	next http.RoundTripper
	// base is the path of the kubeconfig's server.
	base string
	tell func(Call)
}

// observing returns a transport that reports its requests to tell, if tell is set.
func observing(next http.RoundTripper, server string, tell func(Call)) (http.RoundTripper, error) {
	if tell == nil {
		return next, nil
	}

	parsed, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the server of the current context is invalid")
	}

	return &observed{next: next, base: parsed.Path, tell: tell}, nil
}

// RoundTrip implements http.RoundTripper.
func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := o.next.RoundTrip(r)
	took := time.Since(began)
	to := targetOf(r, o.base)
	o.tell(Call{Service: to.service(), Duration: took, Failed: to.failed(resp, err) && !exceedsQuota(resp)})

	return resp, err
}

// exceedsQuota reports whether a request was refused because a quota is exhausted, which only the
// text of the response shows (k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go).
// The next reader still gets the whole body.
func exceedsQuota(resp *http.Response) bool {
	if resp == nil || resp.StatusCode != http.StatusForbidden {
		return false
	}

	// The next reader also gets the read error.
	begin, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = &reread{Reader: io.MultiReader(bytes.NewReader(begin), resp.Body), Closer: resp.Body}

	return bytes.Contains(begin, []byte("exceeded quota"))
}

// reread is a body whose beginning has been read before.
type reread struct {
	io.Reader
	io.Closer
}

// WrappedRoundTripper lets Kubernetes' libraries unwrap the transport.
func (o *observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// target is the resource and verb of a request. named is set if it is for one object.
type target struct {
	resource, verb string
	named          bool
}

// targetOf parses a path as the API server does
// (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go), as far as the driver's clients use it:
// /api/v1 or /apis/GROUP/VERSION, then namespaces/NAMESPACE for namespaced resources, then
// RESOURCE/NAME/SUBRESOURCE.
func targetOf(r *http.Request, base string) target {
	rest := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(base, "/")), "/"), "/")

	switch {
	case rest[0] == "api" && len(rest) > 2:
		rest = rest[2:]
	case rest[0] == "apis" && len(rest) > 3:
		rest = rest[3:]
	default:
		return target{resource: "other", verb: verbOf(r, false)}
	}

	if rest[0] == "namespaces" && len(rest) > 2 {
		rest = rest[2:]
	}

	to := target{resource: rest[0], named: len(rest) > 1}
	if len(rest) > 2 {
		to.resource += "_" + rest[2]
	}

	to.verb = verbOf(r, to.named)

	return to
}

// verbOf returns the verb of the permission that a request requires.
func verbOf(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet:
		switch {
		case r.URL.Query().Has("watch"):
			return "watch"
		case named:
			return "get"
		default:
			return "list"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if !named {
			return "deletecollection"
		}

		return "delete"
	default:
		return strings.ToLower(r.Method)
	}
}

func (t target) service() string { return t.resource + "_" + t.verb }

// failed implements the definition of Call.Failed, except for quotas.
func (t target) failed(resp *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(err, context.Canceled)
	}

	switch resp.StatusCode {
	case http.StatusNotFound:
		return !t.named || t.verb == "create"
	case http.StatusConflict, http.StatusGone:
		return false
	default:
		return resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices
	}
}
