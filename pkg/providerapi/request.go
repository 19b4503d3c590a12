package providerapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// lookTimeout bounds the reading of one object, which no webhook delays. If the provider cluster keeps requests hanging and then comes
// back, it is as long as this, and as long as machine-controller-manager's ShortRetry (5 s), until it is asked anew.
const lookTimeout = 8 * time.Second

// retryBackoff spaces the attempts of one request: after 0, 0.2, 0.6, 1.4, 3, 6 and 13 seconds. The retry window ends them. It has
// no cap: wait.Backoff would end at it.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 1000}

// Request sends one request, and again for as long as the retry window lasts while the provider cluster fails in a way that may pass. The
// error that is left wraps a sentinel of the package spi, and names what was tried.
func (c *Clients) Request(ctx context.Context, what string, send func(context.Context) error) error {
	return c.repeat(ctx, what, requestTimeout, send)
}

// Look is Request for the reading of one object.
func (c *Clients) Look(ctx context.Context, what string, read func(context.Context) error) error {
	return c.repeat(ctx, what, lookTimeout, read)
}

// Once sends one request, and not again, within a time limit. Its errors are those of the request: Explain makes them fit to be shown.
func Once[T any](ctx context.Context, limit time.Duration, send func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	ctx, turn := withTurn(ctx)
	defer turn.leave()

	return send(ctx)
}

// repeat sends a request until it is answered for good, or the retry window is over. Each attempt has a time limit. An attempt that begins
// late in the window has less: all together last requestTimeout at most.
func (c *Clients) repeat(ctx context.Context, what string, limit time.Duration, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	began, backoff := time.Now(), retryBackoff

	for {
		err := attempt(ctx, limit, send)
		if !passing(err) {
			return explained(what, err)
		}

		pause := backoff.Step()
		if time.Since(began)+pause >= c.RetryFor || !sleep(ctx, pause) {
			return explained(what, err)
		}
	}
}

func attempt(ctx context.Context, limit time.Duration, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	ctx, turn := withTurn(ctx)
	defer turn.leave()

	return send(ctx)
}

// sleep waits, and returns false if the context is over before.
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

// passing says whether a failure may pass by itself within seconds. Everything that is no answer of an API server is one of the network,
// but for an answer beyond the bounds: another one would be too.
func passing(err error) bool {
	if err == nil || tooLarge(err) || errors.Is(err, ErrEndless) {
		return false
	}

	code, answered := statusCode(err)

	return !answered || quotaConflict(err) || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// quotaConflict says whether the server lost a race with itself: parallel creations charge the same quota
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go).
func quotaConflict(err error) bool {
	var status apierrors.APIStatus

	return apierrors.IsConflict(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "resourcequotas"
}

// Absent says whether the API server knows the type and not the object. Another 404, from a server that does not know the type
// or is none, must not be taken for it: what cannot be seen may well be running.
func Absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Explain returns an error of a request, or nil, in a form that is fit to be shown: it wraps a sentinel of the package spi, and its text
// quotes nothing but what an API server says. One that has this form already stays as it is.
func Explain(err error) error {
	var already *explainedError
	if err == nil || errors.As(err, &already) {
		return err
	}

	return &explainedError{fmt.Errorf("%w: %w", sentinelOf(err), PlainTerms(err))}
}

// explained is Explain with what was tried.
func explained(what string, err error) error {
	if err == nil {
		return nil
	}

	return &explainedError{fmt.Errorf("%w: %s: %w", sentinelOf(err), what, PlainTerms(err))}
}

// explainedError is an error that Explain has made.
type explainedError struct{ error }

func (e *explainedError) Unwrap() error { return e.error }

// sentinelOf says what an error of the API server means. What is compared as text is admission plugins' wording, which has no
// reason of its own: "exceeded quota" (k8s.io/kubernetes/plugin/pkg/admission/resourcequota/controller.go).
func sentinelOf(err error) error {
	switch code, _ := statusCode(err); {
	case passing(err):
		return spi.ErrUnavailable
	case apierrors.IsNotFound(err):
		// Single objects that may be missing are handled where they are read: what is missing here is a namespace or a type.
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
