// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var errRefused = &url.Error{Op: "Post", URL: "https://127.0.0.1", Err: syscall.ECONNREFUSED}

// answered returns the error for a response without a reason, as admission webhooks send it.
func answered(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestKindOf(t *testing.T) {
	t.Parallel()

	vms := schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}
	terminating := apierrors.NewForbidden(vms, "m", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}

	tests := map[string]struct {
		reason string
		err    error
		want   error
	}{
		"Refused":        {"nobody listens, for a moment", errRefused, spi.ErrUnavailable},
		"Deadline":       {"no answer in time", context.DeadlineExceeded, spi.ErrUnavailable},
		"TooMany":        {"the server asks for patience", apierrors.NewTooManyRequests("slow down", 1), spi.ErrUnavailable},
		"Internal":       {"a webhook that is down", apierrors.NewInternalError(errors.New("failed calling webhook")), spi.ErrUnavailable},
		"Unavailable":    {"the server starts", apierrors.NewServiceUnavailable("starting"), spi.ErrUnavailable},
		"Quota":          {"cluster-autoscaler must back off", apierrors.NewForbidden(vms, "m", errors.New("exceeded quota: q")), spi.ErrExhausted},
		"RBAC":           {"a right is missing", apierrors.NewForbidden(vms, "m", errors.New("User cannot create")), spi.ErrForbidden},
		"Terminating":    {"the namespace goes away", terminating, spi.ErrPrecondition},
		"Token":          {"the token expired", apierrors.NewUnauthorized("Unauthorized"), spi.ErrUnauthenticated},
		"NoType":         {"KubeVirt is not installed", apierrors.NewNotFound(vms, ""), spi.ErrPrecondition},
		"Webhook422":     {"virt-api refuses", answered(http.StatusUnprocessableEntity, "denied"), spi.ErrInvalid},
		"Mutator400":     {"virt-api cannot read it", answered(http.StatusBadRequest, "denied"), spi.ErrInvalid},
		"Conflict":       {"somebody was faster", apierrors.NewConflict(vms, "m", errors.New("changed")), spi.ErrConflict},
		"SurprisingCode": {"better asked again", answered(http.StatusTeapot, ""), spi.ErrUnavailable},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, kindOf(tc.err), tc.reason)
		})
	}
}

// TestRepeat runs in a synctest bubble with a fake clock.
func TestRepeat(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		err    error
		passes time.Duration
		want   error
	}{
		"Blip":      {"what passes within the window is not seen", errRefused, 10 * time.Second, nil},
		"Outage":    {"what does not is said", errRefused, time.Hour, spi.ErrUnavailable},
		"QuotaRace": {"parallel creations charge one quota", quotaRace(), 5 * time.Second, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Clients{RetryFor: 15 * time.Second}
				begun := time.Now()
				last := time.Duration(0)

				err := request(t, s, transport.RequestTimeout, func(context.Context) error {
					if last = time.Since(begun); last >= tc.passes {
						return nil
					}

					return tc.err
				})

				require.ErrorIs(t, err, tc.want, tc.reason)
				require.Greater(t, last, min(tc.passes, 10*time.Second)-time.Nanosecond, "attempts go on for the whole window")
				require.LessOrEqual(t, time.Since(begun), 15*time.Second)
			})
		})
	}
}

func quotaRace() error {
	err := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "q", errors.New("changed"))

	return err
}

func TestRepeat_DoesNotRetryResponse(t *testing.T) {
	t.Parallel()

	s := &Clients{RetryFor: time.Minute}
	sent := 0
	cause := answered(http.StatusUnprocessableEntity, "spec.x is wrong")
	err := request(t, s, transport.RequestTimeout, func(context.Context) error {
		sent++

		return cause
	})

	require.ErrorIs(t, err, spi.ErrInvalid)
	require.ErrorIs(t, err, cause, "callers ask for the answer's kind")
	require.ErrorContains(t, err, "get x")
	require.Equal(t, 1, sent)
}

// TestRepeat_HangingRead has a provider cluster never respond to the first requests, but to later
// ones.
func TestRepeat_HangingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Clients{RetryFor: 15 * time.Second}
		begun := time.Now()
		back := begun.Add(time.Second)

		err := request(t, s, readTimeout, func(ctx context.Context) error {
			if time.Now().After(back) {
				return nil
			}

			<-ctx.Done()

			return ctx.Err()
		})

		require.NoError(t, err)
		require.Less(t, time.Since(begun), 10*time.Second)
	})
}

// TestRepeat_HangsAtEndOfWindow has a provider cluster refuse requests until the retry window is
// nearly over, and never respond to the last one.
func TestRepeat_HangsAtEndOfWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Clients{RetryFor: 15 * time.Second}
		begun := time.Now()

		err := request(t, s, transport.RequestTimeout, func(ctx context.Context) error {
			if time.Since(begun) < 10*time.Second {
				return errRefused
			}

			<-ctx.Done()

			return ctx.Err()
		})

		require.ErrorIs(t, err, spi.ErrUnavailable)
		require.Equal(t, transport.RequestTimeout, time.Since(begun))
	})
}

// request sends a request as the methods of Objects do.
func request(t *testing.T, c *Clients, limit time.Duration, send func(context.Context) error) error {
	t.Helper()

	_, err := repeat(t.Context(), c, "get x", limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, send(ctx) })

	return err
}

// TestAbsent distinguishes an object that does not exist from a server
// that does not know the resource.
func TestAbsent(t *testing.T) {
	t.Parallel()

	vms := schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}
	require.True(t, Absent(apierrors.NewNotFound(vms, "m")))
	require.False(t, Absent(apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", vms, "m", "404 page not found", 0, true)))
	require.False(t, Absent(errRefused))
	require.False(t, Absent(nil))
}
