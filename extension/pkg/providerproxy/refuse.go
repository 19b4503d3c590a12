// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// refuse answers a request that has no response of the provider cluster, or one that exceeds a bound.
// The program reports the text in an Event of the shoot.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // The program does not wait any more.
	}

	status := statusOf(err)
	p.log.Info("Refused a request", "method", r.Method, "path", r.URL.Path, "reason", status.Message)

	text, err := json.Marshal(status)
	if err != nil {
		p.log.Error(err, "Failed to encode a status")
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(text) // The program may have hung up.
}

// statusOf returns the response for an error.
func statusOf(err error) *metav1.Status {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     http.StatusServiceUnavailable,
		Reason:   metav1.StatusReasonServiceUnavailable,
	}

	switch bound, excess := transport.ExceededBound(err); {
	case excess:
		status.Code = http.StatusBadGateway
		status.Reason = metav1.StatusReasonInternalError
		status.Message = bound
	case errors.Is(err, errListTooLarge):
		status.Code = http.StatusBadGateway
		status.Reason = metav1.StatusReasonInternalError
		status.Message = errListTooLarge.Error()
	case errors.Is(err, context.DeadlineExceeded):
		status.Code = http.StatusGatewayTimeout
		status.Reason = metav1.StatusReasonTimeout
		status.Message = transport.Failure(err)
	default:
		status.Message = transport.Failure(err)
	}

	status.Message = "provider cluster: " + status.Message

	return status
}
