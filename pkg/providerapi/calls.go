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

// Call is one request to the API server of a provider cluster. A request that is sent again is another one.
type Call struct {
	// Service is what was asked for, as in "virtualmachines_create": the resource and the verb of the rights that it takes. It never
	// holds a name. What is no resource is "other".
	Service string
	// Duration is how long it took until the answer began; of a watch, until it was begun.
	Duration time.Duration
	// Failed says that the server did not do what it was asked, or did not answer. What the driver goes on from is no failure: that a
	// named object is not there (404 for anything but a create), that one is there already or has changed (409), that a version
	// to begin from is too old (410), and that a quota is used up (403), which is for cluster-autoscaler. Nor is a request that the
	// driver itself cancelled. Everything else but success is one, also a right that is missing (403), and too many requests (429).
	Failed bool
}

// observed tells of every request. It is the outermost layer: what is wrong with an answer in the others' eyes is a failure too.
type observed struct {
	next http.RoundTripper
	// base is the path of the kubeconfig's server.
	base string
	tell func(Call)
}

// observing returns a transport that tells of its requests, if anybody listens.
func observing(next http.RoundTripper, server string, tell func(Call)) (http.RoundTripper, error) {
	if tell == nil {
		return next, nil
	}

	parsed, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the server of the current context cannot be used")
	}

	return &observed{next: next, base: parsed.Path, tell: tell}, nil
}

// RoundTrip implements http.RoundTripper.
func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := o.next.RoundTrip(r)
	took, to := time.Since(began), targetOf(r, o.base)
	o.tell(Call{Service: to.service(), Duration: took, Failed: to.failed(resp, err) && !exceedsQuota(resp)})

	return resp, err
}

// maxRefusal bounds what is read of a refusal to see whether it is a quota's, in bytes.
const maxRefusal = 16 << 10

// exceedsQuota says whether a quota is used up. Only the refusal's text says so
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go), of which nothing is lost to who reads it next.
func exceedsQuota(resp *http.Response) bool {
	if resp == nil || resp.StatusCode != http.StatusForbidden {
		return false
	}

	// What keeps it from being read keeps the next one from it too.
	begin, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = &reread{Reader: io.MultiReader(bytes.NewReader(begin), resp.Body), Closer: resp.Body}

	return bytes.Contains(begin, []byte("exceeded quota"))
}

// reread is a body of which the beginning was read before.
type reread struct {
	io.Reader
	io.Closer
}

// WrappedRoundTripper lets Kubernetes' libraries look through.
func (o *observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// target is what a request is about. named says that it is one object.
type target struct {
	resource, verb string
	named          bool
}

// targetOf reads a path as the API server does (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go), as far as the driver's clients
// make them: /api/v1 or /apis/GROUP/VERSION, then namespaces/NAMESPACE for what is namespaced, then RESOURCE/NAME/SUBRESOURCE.
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

// verbOf returns the verb of the right that a request takes.
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

// failed says what the Call documents.
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
