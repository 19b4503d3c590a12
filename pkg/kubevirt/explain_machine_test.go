// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// explainer records its input, and returns the configured result.
type explainer struct {
	asked       *spi.ExplainMachineInput
	explanation *spi.Explanation
	err         error
}

func (e *explainer) ExplainMachine(_ context.Context, in *spi.ExplainMachineInput) (*spi.Explanation, error) {
	e.asked = in

	return e.explanation, e.err
}

func explain(t *testing.T, r *request, e *explainer) *kubevirt.Explanation {
	t.Helper()

	return kubevirt.Explain(t.Context(), e, &kubevirt.ExplainRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret},
		validation.Options{Template: validation.TemplateSafe})
}

const (
	// secretOfClass is the Secret of validRequest's class.
	secretOfClass = "the Secret of the MachineClass, key kubeconfig"
	correctFields = "correct the named fields; mcm-kubevirt validate lists all errors of a MachineClass"
)

func TestExplain(t *testing.T) {
	t.Parallel()

	now := time.Now()
	diagnosed := &spi.Cause{
		Err:          &spi.Error{Kind: spi.ErrExhausted, Message: "no [room]", Remedy: "add nodes"},
		Since:        now.Add(-time.Hour),
		ReportableAt: now.Add(-time.Minute),
	}

	tests := map[string]struct {
		reason string
		change func(*request)
		answer explainer
		// want is the token, and code the code; no token: nothing is wrong.
		want string
		code codes.Code
		// passing is set if the cause is not a failure.
		passing bool
		remedy  string
	}{
		"Fine":   {reason: "nothing is wrong", answer: explainer{explanation: &spi.Explanation{Stage: spi.StageScheduled}}},
		"Absent": {reason: "it is yet to be made", answer: explainer{explanation: &spi.Explanation{Stage: spi.StageAbsent}}},
		"Vanished": {
			reason: "it is never created again",
			change: func(r *request) { r.machine.Spec.ProviderID = "kubevirt://m" },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageAbsent, Waiting: "there is no VirtualMachine m"}},
			want:   kubevirt.TokenVanished,
			code:   codes.NotFound,
			remedy: "look for the deletion in the audit log of the provider cluster. MCM replaces the machine when its Node is gone or has not been Ready " +
				"for the health timeout; to replace it now, delete the Machine",
		},
		"StillThere": {
			reason: "it is not gone",
			change: func(r *request) { r.machine.Spec.ProviderID = "kubevirt://m" },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageScheduled}},
		},
		"Diagnosed": {
			reason: "the diagnosis has its own remedy",
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageCreating, Cause: diagnosed}},
			want:   "QuotaExceeded",
			code:   codes.ResourceExhausted,
			remedy: "add nodes",
		},
		"Refused": {
			reason: "what the provider cluster answers",
			answer: explainer{err: spi.Errorf(spi.ErrUnauthenticated, "get VirtualMachine m")},
			want:   "CredentialsRefused",
			code:   codes.Unauthenticated,
			remedy: "put a kubeconfig with valid credentials into " + secretOfClass + "; for a service account, kubectl create token creates a token",
		},
		"Conflict": {
			reason:  "another operation ends by itself",
			answer:  explainer{err: spi.Errorf(spi.ErrConflict, "Secret m is being deleted")},
			want:    "OperationInProgress",
			code:    codes.Aborted,
			passing: true,
			remedy:  "no action is needed; MCM retries within seconds",
		},
		"BadClass": {
			reason: "the machine cannot be made",
			change: func(r *request) { r.class.ProviderSpec.Raw = []byte(strings.Replace(validSpec, `"zone":"z",`, "", 1)) },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageAbsent}},
			want:   "InvalidInput",
			code:   codes.InvalidArgument,
			remedy: correctFields,
		},
		"BadClassLater": {
			reason: "the machine was made before",
			change: func(r *request) { r.class.ProviderSpec.Raw = []byte(strings.Replace(validSpec, `"zone":"z",`, "", 1)) },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageScheduled}},
		},
		"NoTags": {
			reason: "our machines cannot be identified",
			change: func(r *request) { r.class.ProviderSpec.Raw = []byte(`{}`) },
			want:   "InvalidInput",
			code:   codes.InvalidArgument,
			remedy: correctFields,
		},
		"BadName": {
			reason: "CreateMachine refuses it",
			change: func(r *request) { r.machine.Name = "a_b" },
			want:   "InvalidInput",
			code:   codes.InvalidArgument,
			remedy: correctFields,
		},
		"DottedName": {
			reason: "CreateMachine refuses it",
			change: func(r *request) { r.machine.Name = "a.b" },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageAbsent}},
			want:   "InvalidInput",
			code:   codes.InvalidArgument,
			remedy: correctFields,
		},
		"DottedNameOfPredecessor": {
			reason: "it was made before",
			change: func(r *request) { r.machine.Name = "a.b" },
			answer: explainer{explanation: &spi.Explanation{Stage: spi.StageScheduled}},
		},
		"Elsewhere": {
			reason: "it is not gone: the remedy is separate, and not repeated in the message",
			answer: explainer{err: &spi.Error{Kind: spi.ErrAddressChanged, Message: "it was made in b", Remedy: "restore b"}},
			want:   "AddressChanged",
			code:   codes.FailedPrecondition,
			remedy: "restore b",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := validRequest()
			if tc.change != nil {
				tc.change(r)
			}

			got := explain(t, r, &tc.answer)
			if tc.want == "" {
				require.Nil(t, got.Cause, tc.reason)

				return
			}

			require.NotNil(t, got.Cause, tc.reason)
			require.Equal(t, tc.want, got.Cause.Err.Reason)
			require.Equal(t, tc.code, kubevirt.CodeOf(got.Cause.Err))
			require.Equal(t, tc.remedy, got.Cause.Err.Remedy)
			require.NotContains(t, got.Cause.Err.Message, tc.want, "the token is separate")
			require.NotContains(t, got.Cause.Err.Message, "[", "as the driver says it")
			require.Equal(t, !tc.passing, kubevirt.Reportable(got.Cause, now))
		})
	}
}

// TestExplainCreates requires dry runs only for machines that are about to be created.
func TestExplainCreates(t *testing.T) {
	t.Parallel()

	absent := &spi.Explanation{Stage: spi.StageAbsent}

	made := &explainer{explanation: absent}
	explain(t, validRequest(), made)
	require.Equal(t, "m", made.asked.Create.Name)
	require.Equal(t, spi.Identity{Cluster: "c", Role: "node"}, made.asked.Identity)

	unknown := validRequest()
	unknown.machine.UID = ""
	made = &explainer{explanation: absent}
	require.Nil(t, explain(t, unknown, made).Cause)
	require.Nil(t, made.asked.Create, "there is no Machine")

	vanished := validRequest()
	vanished.machine.Spec.ProviderID = "kubevirt://m"
	made = &explainer{explanation: absent}
	require.NotNil(t, explain(t, vanished, made).Cause)
	require.Nil(t, made.asked.Create, "machine-controller-manager creates it no more")

	deleted := validRequest()
	deleted.machine.Spec.ProviderID = "kubevirt://m"
	deleted.machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	made = &explainer{explanation: absent}
	require.Nil(t, explain(t, deleted, made).Cause)
	require.Nil(t, made.asked.Create, "it is on its way out")
}

// TestReportable_GracePeriod tests a cause within its grace period.
func TestReportable_GracePeriod(t *testing.T) {
	t.Parallel()

	now := time.Now()
	young := &spi.Cause{Err: spi.Errorf(spi.ErrExhausted, "no room"), Since: now, ReportableAt: now.Add(time.Second)}
	got := explain(t, validRequest(), &explainer{explanation: &spi.Explanation{Stage: spi.StageCreating, Cause: young}})

	require.False(t, kubevirt.Reportable(got.Cause, now))
	require.True(t, kubevirt.Reportable(got.Cause, now.Add(time.Second)))
}
