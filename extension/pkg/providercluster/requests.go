// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// ErrorPrefix is the prefix of errors from the provider cluster. Package errorcodes needs it to
// distinguish them from errors of the seed's API server.
const ErrorPrefix = "provider cluster: "

// ErrRequest is wrapped by all errors of requests. Its text is ErrorPrefix.
var ErrRequest = errors.New(ErrorPrefix)

// maxMessage bounds the text of an error that the provider cluster chooses, in bytes. It becomes part
// of the Shoot's status.
const maxMessage = 2 << 10

const (
	// totalTimeout bounds the time of all requests of a reconciliation together. A reconciliation may
	// take twenty minutes.
	totalTimeout = 2 * time.Minute
	// requestsPerSecond limits the requests of a reconciliation, with bursts of twice as many. client-go's default, five,
	// would let the pages of a list take longer than promptTimeout.
	requestsPerSecond = 100
	// promptTimeout bounds this time for reconciliations that hold none of the controller's places. A
	// reconciliation sends fifty requests at most, each of which takes some milliseconds.
	promptTimeout = 5 * time.Second
)

// errTotalTimeout is the error of requests after totalTimeout.
var errTotalTimeout = fmt.Errorf("it responds too slowly: the requests of this reconciliation took more than %s: %w", totalTimeout, context.DeadlineExceeded)

// ErrBusy is the error of requests after promptTimeout, while too many other provider clusters are
// slow, too.
var ErrBusy = fmt.Errorf("it responds too slowly: the requests of this reconciliation took more than %s, and too many other provider clusters are slow at the same time: %w",
	promptTimeout, context.DeadlineExceeded)

// requests is a client that bounds the time of its requests and adds ErrorPrefix to errors.
type requests struct {
	client.Client

	places places
	token  workloadToken
	// program is set for a program: its requests have no total time, and it draws conclusions from what does
	// not exist.
	program bool

	mu   sync.Mutex
	used time.Duration
}

func newRequests(c client.Client, p places) *requests { return &requests{Client: c, places: p} }

// send sends a request within transport.RequestTimeout and within the time that is left.
func (r *requests) send(ctx context.Context, request func(context.Context) error) error {
	r.mu.Lock()
	used := r.used
	r.mu.Unlock()

	if r.program {
		used = 0
	}

	if used >= totalTimeout {
		return nameError(errTotalTimeout)
	}

	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)

	end := r.places.takeAfter(promptTimeout-used, func() { refuse(ErrBusy) })
	defer end()

	limited, cancel := context.WithTimeout(ctx, min(transport.RequestTimeout, totalTimeout-used))
	defer cancel()

	start := time.Now()
	err := request(limited)

	r.mu.Lock()
	r.used += time.Since(start)
	r.mu.Unlock()

	if err != nil && errors.Is(context.Cause(ctx), ErrBusy) {
		err = ErrBusy
	}

	return nameError(r.token.explain(err))
}

// Get implements client.Reader.
func (r *requests) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return r.send(ctx, func(ctx context.Context) error {
		if err := r.Client.Get(ctx, key, object, options...); err != nil {
			return r.absent(object, key.Name, err)
		}

		return r.identify(object, key)
	})
}

// List implements client.Reader.
func (r *requests) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.send(ctx, func(ctx context.Context) error {
		if err := r.Client.List(ctx, list, options...); err != nil || !r.program || list.GetResourceVersion() != "" {
			return err
		}

		return errIdentity // API servers set it: the list is not empty, but something else.
	})
}

// Create implements client.Writer.
func (r *requests) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	key := client.ObjectKeyFromObject(object)

	return r.send(ctx, func(ctx context.Context) error {
		if err := r.Client.Create(ctx, object, options...); err != nil || !r.program {
			return err
		}

		return r.identify(object, key)
	})
}

// Update implements client.Writer.
func (r *requests) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return r.send(ctx, func(ctx context.Context) error { return r.Client.Update(ctx, object, options...) })
}

// Delete implements client.Writer.
func (r *requests) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return r.send(ctx, func(ctx context.Context) error {
		return r.absent(object, object.GetName(), r.Client.Delete(ctx, object, options...))
	})
}

// DeleteAllOf implements client.Writer.
func (r *requests) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	return r.send(ctx, func(ctx context.Context) error { return r.Client.DeleteAllOf(ctx, object, options...) })
}

// SubResource implements client.SubResourceClientConstructor.
func (r *requests) SubResource(name string) client.SubResourceClient {
	return &subResource{SubResourceClient: r.Client.SubResource(name), requests: r}
}

// subResource bounds the creation of a subresource, the only request that the extension sends.
type subResource struct {
	client.SubResourceClient

	requests *requests
}

// Create implements client.SubResourceCreator.
func (s *subResource) Create(ctx context.Context, object, sub client.Object, options ...client.SubResourceCreateOption) error {
	return s.requests.send(ctx, func(ctx context.Context) error { return s.SubResourceClient.Create(ctx, object, sub, options...) })
}

// errIdentity is the error of a response with something else than the object that was asked for: clients decode
// {}, null and objects of other kinds to an empty object.
var errIdentity = errors.New("the response is not the object of the request; the server, or a program in front of it, is not a Kubernetes API server")

// identify returns an error unless a response has the object of this key.
func (r *requests) identify(object client.Object, key client.ObjectKey) error {
	if client.ObjectKeyFromObject(object) != key || r.program && object.GetUID() == "" {
		return errIdentity
	}

	return nil
}

// absent returns the error of a request for an object. For a program, it is NotFound only if the API server says that
// this object does not exist. Gateways, and API servers that lack the kind, respond with 404, too.
func (r *requests) absent(object client.Object, name string, err error) error {
	if !r.program || !apierrors.IsNotFound(err) {
		return err
	}

	kind, failed := r.GroupVersionKindFor(object)
	if failed != nil {
		return failed
	}

	mapping, failed := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if failed != nil {
		return failed
	}

	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		details := status.Status().Details
		if details != nil && details.Name == name && details.Kind == mapping.Resource.Resource && details.Group == kind.Group {
			return err
		}
	}

	return fmt.Errorf("get or delete %s %s: the response 404 does not say that it does not exist; check that the kubeconfig has the URL of an API server with %s", kind.Kind, name, kind.GroupVersion())
}

func nameError(err error) error {
	if err == nil {
		return nil
	}

	if d := (*distrust)(nil); errors.As(err, &d) {
		return fmt.Errorf("%w%w", ErrRequest, d)
	}

	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		response := status.Status()
		if len(response.Message) > maxMessage {
			response.Message = response.Message[:maxMessage] + "..."
		}

		return fmt.Errorf("%w%w", ErrRequest, &apierrors.StatusError{ErrStatus: response})
	}

	if unanswered := (*url.Error)(nil); errors.As(err, &unanswered) {
		err = &failure{cause: err}
	}

	return fmt.Errorf("%w%w", ErrRequest, err)
}

// failure is the error of a request without a response. Its text has no names and addresses of the seed:
// it becomes part of the Shoot's status.
type failure struct{ cause error }

// Error implements error.
func (f *failure) Error() string { return transport.Failure(f.cause) }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }
