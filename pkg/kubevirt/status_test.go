// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	mcmstrings "github.com/gardener/machine-controller-manager/pkg/util/strings"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

func TestStatusFrom(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		err   error
		want  codes.Code
		token string
	}{
		"Invalid":         {spi.ErrInvalid, codes.InvalidArgument, "InvalidInput"},
		"NotFound":        {spi.ErrNotFound, codes.NotFound, "MachineNotFound"},
		"Foreign":         {spi.ErrForeign, codes.AlreadyExists, "ForeignObject"},
		"Uninitialized":   {spi.ErrUninitialized, codes.Uninitialized, "NotScheduledYet"},
		"Conflict":        {spi.ErrConflict, codes.Aborted, "OperationInProgress"},
		"Exhausted":       {spi.ErrExhausted, codes.ResourceExhausted, "QuotaExceeded"},
		"Unauthenticated": {spi.ErrUnauthenticated, codes.Unauthenticated, "CredentialsRefused"},
		"Forbidden":       {spi.ErrForbidden, codes.PermissionDenied, "PermissionDenied"},
		"Precondition":    {spi.ErrPrecondition, codes.FailedPrecondition, "PreconditionFailed"},
		"Unavailable":     {spi.ErrUnavailable, codes.Unavailable, "ProviderUnavailable"},
		"Timeout":         {spi.ErrTimeout, codes.DeadlineExceeded, "TimedOut"},
		"Unmapped":        {errors.New("surprise"), codes.Unknown, "Unknown"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := statusFrom(spi.Errorf(tc.err, "vm[ns/x]: %w", errors.New("a] [b")), machineclass.KubeconfigSource{})
			got, ok := status.FromError(err)
			require.True(t, ok, "machine-controller-manager must be able to read the code back")
			require.Equal(t, tc.want, got.Code())
			require.True(t, strings.HasPrefix(got.Message(), tc.token+": "), "the token leads: %s", got.Message())
			require.Contains(t, got.Message(), "vm(ns/x): a) (b", "no brackets are left")
		})
	}

	require.NoError(t, statusFrom(nil, machineclass.KubeconfigSource{}))
}

// TestStatusFrom_EndsWithRemedy requires every text that a Machine shows to end with the remedy, even
// if the quoted message is far longer than the text may be.
func TestStatusFrom_EndsWithRemedy(t *testing.T) {
	t.Parallel()

	used := machineclass.KubeconfigSource{Place: "Secret shoot/cloudprovider, key kubeconfig"}

	words := strings.Repeat("the words of the component that refuses ", 50)

	for _, m := range meanings {
		require.Equal(t, m.kind, spi.AsError(m.kind).Kind, "package spi must know its sentinel %q", m.kind)
	}

	for _, m := range append([]meaning{unknown}, meanings...) {
		if errors.Is(m.kind, spi.ErrNotFound) || errors.Is(m.kind, spi.ErrUninitialized) {
			continue
		}

		text := textOf(t, spi.Errorf(m.kind, "%s", words), used)
		require.True(t, strings.HasSuffix(text, "; "+defaultRemedies(used.String())[m.reason]), "%s: %s", m.reason, text)
		require.LessOrEqual(t, len(text), statustext.MaxLength)
		require.Contains(t, text, "the words of the component")
	}

	for _, reason := range diagnose.Reasons() {
		text := textOf(t, &spi.Error{Kind: diagnose.Kind(reason), Reason: reason, Message: words, Remedy: "do [this]"}, used)
		require.True(t, strings.HasPrefix(text, reason+": "), text)
		require.True(t, strings.HasSuffix(text, "; do (this)"), text)
		require.Equal(t, 1, strings.Count(text, "; do "), "once: %s", text)
	}
}

// textOf returns the text that machine-controller-manager reads.
func textOf(t *testing.T, err error, used machineclass.KubeconfigSource) string {
	t.Helper()

	got, ok := status.FromError(statusFrom(err, used))
	require.True(t, ok)

	return got.Message()
}

// TestStatusFrom_KubeconfigError requires errors from lower layers, which do not have the Secret's
// name, to include it.
func TestStatusFrom_KubeconfigError(t *testing.T) {
	t.Parallel()

	used := machineclass.KubeconfigSource{Place: "Secret shoot/cloudprovider, key kubeconfig"}

	tests := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Refused": {
			"a field of the kubeconfig", &spi.Error{Kind: spi.ErrInvalid, Message: "field exec is refused", Remedy: "correct it", Kubeconfig: true},
			"InvalidInput: Secret shoot/cloudprovider, key kubeconfig: field exec is refused; correct it",
		},
		"Expired": {
			"the server refuses the token", spi.Errorf(spi.ErrUnauthenticated, "get VirtualMachine ns/m: Unauthorized"),
			"CredentialsRefused: Secret shoot/cloudprovider, key kubeconfig: get VirtualMachine ns/m: Unauthorized; put a kubeconfig with valid credentials into " +
				"Secret shoot/cloudprovider, key kubeconfig; for a service account, kubectl create token creates a token",
		},
		"Other": {"the kubeconfig is not at fault", spi.WithRemedy(spi.Errorf(spi.ErrExhausted, "no room"), "add nodes"), "QuotaExceeded: no room; add nodes"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, textOf(t, tc.err, used), tc.reason)
		})
	}
}

// leading is the beginning of every text.
var leading = regexp.MustCompile(`^([A-Z][a-z]+)+: `)

func TestStatusFrom_KeepsReason(t *testing.T) {
	t.Parallel()

	vm := &kubevirtv1.VirtualMachine{}
	vm.Status.Conditions = []kubevirtv1.VirtualMachineCondition{{
		Type:               kubevirtv1.VirtualMachineFailure,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
		Reason:             "FailedFindInstancetype",
		Message:            "not found",
	}}

	got, ok := status.FromError(statusFrom(diagnose.Machine(vm, nil).Err, machineclass.KubeconfigSource{}))
	require.True(t, ok)
	require.Equal(t, codes.FailedPrecondition, got.Code())
	require.Contains(t, got.Message(), "InstancetypeNotFound: not found; ")
	require.Regexp(t, leading, got.Message())

	for _, reason := range diagnose.Reasons() {
		require.Regexp(t, leading, reason+": ")
		require.NotEqual(t, codes.Unknown, meaningOf(diagnose.Kind(reason)).code, reason)
	}
}

// TestStatusFrom_ChangedCode goes through all pairs of causes with different codes but the same
// message: machine-controller-manager must write the second to a Machine that has the first.
func TestStatusFrom_ChangedCode(t *testing.T) {
	t.Parallel()

	words := strings.Repeat("the words of the component that refuses ", 8)
	reasons := diagnose.Reasons()

	for i, a := range reasons {
		for _, b := range reasons[i+1:] {
			first := lastOperation(t, a, words)
			second := lastOperation(t, b, words)
			if first.ErrorCode == second.ErrorCode {
				continue
			}

			alike := mcmstrings.StringSimilarityRatio(first.Description, second.Description)
			require.Greater(t, alike, 0.75, "the texts alone would not do")
			require.False(t, similar(alike, first, second), "%s, %s", a, b)
		}
	}
}

// lastOperation is the text that machine-controller-manager derives from a cause
// (pkg/util/provider/machinecontroller/machine.go, initializeMachine).
func lastOperation(t *testing.T, reason, words string) v1alpha1.LastOperation {
	t.Helper()

	err := statusFrom(&spi.Error{Kind: diagnose.Kind(reason), Reason: reason, Message: words}, machineclass.KubeconfigSource{})
	got, ok := status.FromError(err)
	require.True(t, ok)

	return v1alpha1.LastOperation{
		Description: fmt.Sprintf("Provider error: %s. %s", err.Error(), machineutils.InstanceInitialization),
		ErrorCode:   got.Code().String(),
		State:       v1alpha1.MachineStateFailed,
		Type:        v1alpha1.MachineOperationCreate,
	}
}

// similar is machine-controller-manager's rule for texts that it does not write
// (pkg/util/provider/machinecontroller/machine_util.go, isMachineStatusSimilar), for two operations
// of the last 30 minutes whose texts are that much alike. The rest of the status is the same.
func similar(alike float64, a, b v1alpha1.LastOperation) bool {
	if alike > 0.75 {
		a.Description = ""
		b.Description = ""
	}

	return apiequality.Semantic.DeepEqual(a, b)
}

// phrases are the texts that machine-controller-manager searches for in a Machine's last operation.
var phrases = []string{
	machineutils.GetVMStatus, machineutils.InitiateDrain, machineutils.DelVolumesAttachments, machineutils.InitiateVMDeletion,
	machineutils.InitiateNodeDeletion, machineutils.InitiateFinalizerRemoval, machineutils.InstanceInitialization,
	machineutils.NodeReadyForUpdate, codes.OutOfRange.String(),
}

func FuzzStatusFrom(f *testing.F) {
	f.Add(0, "x [ y")
	f.Add(1, "a ] [ b")
	f.Add(2, strings.Repeat("ö", 2000))
	f.Add(3, "\xff\x00\n")
	f.Add(5, "Token: Initiate\nnode drain")

	for i, phrase := range phrases {
		f.Add(i, "x"+phrase+phrase)
	}

	f.Fuzz(func(t *testing.T, which int, message string) {
		m := meanings[uint(which)%uint(len(meanings))]

		got, ok := status.FromError(statusFrom(spi.Errorf(m.kind, "%s", message), machineclass.KubeconfigSource{}))
		require.True(t, ok)
		require.Equal(t, m.code, got.Code())
		require.LessOrEqual(t, len(got.Message()), statustext.MaxLength)
		require.True(t, utf8.ValidString(got.Message()))
		require.True(t, strings.HasPrefix(got.Message(), m.reason+": "))
		require.Equal(t, got.Message(), statustext.Fit(got.Message()), "a text may pass through two processes")

		for _, phrase := range phrases {
			require.NotContains(t, got.Message(), phrase, "it would move the Machine to another step")
		}
	})
}
