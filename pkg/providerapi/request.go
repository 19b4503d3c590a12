// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// retryBackoff spaces the attempts of one request: after 0, 0.2, 0.6, 1.4, 3, 6 and 13 seconds,
// until the retry window ends. It has no cap, because wait.Backoff stops when it reaches one.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 1000}

// Once sends one request within a time limit and does not retry. Its errors are those of the
// request: Explain makes them safe to show.
func Once[T any](ctx context.Context, limit time.Duration, send func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	response, err := send(ctx)
	if object, ok := any(response).(runtime.Object); ok && err == nil {
		err = pages.Check(object)
	}

	return response, err
}

// repeat sends a request until it gets a final response or the retry window ends. Each attempt has
// a time limit. An attempt that begins late in the window has less time: all attempts together take
// at most transport.RequestTimeout. The final error is a spi.Error that names the operation.
func repeat[T any](
	ctx context.Context, c *Clients, operation string, limit time.Duration, send func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, transport.RequestTimeout)
	defer cancel()

	began := time.Now()
	backoff := retryBackoff

	for {
		response, err := Once(ctx, limit, send)
		if !isTransient(err) {
			return response, explained(operation, err)
		}

		pause := backoff.Step()
		if time.Since(began)+pause >= c.RetryFor || !sleep(ctx, pause) {
			return response, explained(operation, err)
		}
	}
}

// sleep waits, and returns false if the context ends first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isTransient reports whether a failure is transient, and a retry may succeed within seconds. Any
// failure that is not a response of an API server is a network failure, except a response that
// exceeds the bounds: the next one would exceed them too.
func isTransient(err error) bool {
	if err == nil || excessOf(err) != "" {
		return false
	}

	code, answered := statusCode(err)

	return !answered || quotaConflict(err) || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// quotaConflict reports whether the API server gave up after conflicts of its own: concurrent
// creations update the same ResourceQuota
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go).
func quotaConflict(err error) bool {
	var status apierrors.APIStatus

	return apierrors.IsConflict(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "resourcequotas"
}

// Absent reports whether the API server knows the type but not the object. Any other 404, from a
// server that does not know the type or is not an API server, must not be treated as absence: a
// machine that is not visible may still be running.
func Absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Explain returns an error of a request as a spi.Error, whose text quotes only an API server's
// message; nil stays nil. A spi.Error is returned unchanged.
func Explain(err error) error {
	var already *spi.Error
	if err == nil || errors.As(err, &already) {
		return err
	}

	explained := sanitized(err)
	explained.Kind = kindOf(err)

	return explained
}

// explained is like Explain, and also names the operation.
func explained(what string, err error) error {
	return spi.During(what, Explain(err))
}

// kindOf maps an error of the API server to a sentinel. It compares text only for an admission
// plugin that sets no reason of its own: "exceeded quota"
// (k8s.io/kubernetes/plugin/pkg/admission/resourcequota/controller.go).
func kindOf(err error) error {
	switch code, _ := statusCode(err); {
	case isTransient(err):
		return spi.ErrUnavailable
	case apierrors.IsNotFound(err):
		// Callers that read single objects handle their absence, so a namespace or a type is
		// missing.
		return spi.ErrPrecondition
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return spi.ErrConflict
	case apierrors.IsUnauthorized(err):
		return spi.ErrUnauthenticated
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return spi.ErrPrecondition
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return spi.ErrExhausted
	case apierrors.IsForbidden(err):
		return spi.ErrForbidden
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return spi.ErrInvalid
	default:
		return spi.ErrUnavailable
	}
}

func statusCode(err error) (int32, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}

	return status.Status().Code, true
}
