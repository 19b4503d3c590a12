package providercluster

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

// requestTimeout bounds one request. An admission webhook may take 10 s, and there are several.
const requestTimeout = 30 * time.Second

// lookTimeout bounds the reading of one object, which no webhook delays. If the provider cluster keeps requests hanging and then comes
// back, it is as long as this, and as long as machine-controller-manager's ShortRetry (5 s), until it is asked anew.
const lookTimeout = 8 * time.Second

// retryBackoff spaces the attempts of one request: after 0, 0.2, 0.6, 1.4, 3, 6 and 13 seconds. The retry window ends them. It has
// no cap: wait.Backoff would end at it.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 1000}

// request sends one request, and again for as long as the retry window lasts while the provider cluster fails in a way that
// may pass. The error that is left wraps a sentinel and names what was tried.
func (s *session) request(ctx context.Context, what string, send func(context.Context) error) error {
	window, cancel := context.WithTimeout(ctx, s.retryFor)
	defer cancel()

	var last error

	err := wait.ExponentialBackoffWithContext(window, retryBackoff, func(context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()

		last = send(attempt)

		return !passing(last), nil
	})
	if last == nil {
		last = err
	}

	if last == nil {
		return nil
	}

	return fmt.Errorf("%w: %s: %w", sentinelOf(last), what, inPlainTerms(last))
}

// look is request for the reading of one object.
func (s *session) look(ctx context.Context, what string, read func(context.Context) error) error {
	return s.request(ctx, what, func(ctx context.Context) error {
		attempt, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()

		return read(attempt)
	})
}

// passing says whether a failure may pass by itself within seconds. Everything that is no answer of an API server is one of
// the network.
func passing(err error) bool {
	if err == nil {
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

// absent says whether the API server knows the type and not the object. Another 404, from a server that does not know the type
// or is none, must not be taken for it: what cannot be seen may well be running.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

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
