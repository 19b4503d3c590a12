// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	mcmstrings "github.com/gardener/machine-controller-manager/pkg/util/strings"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// TestFailuresOnTheMachine checks how failures are shown to users and cluster-autoscaler under
// machine-controller-manager's own controllers.
func TestFailuresOnTheMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.ApplyExample(t)
	s.ChangeClass(t, "example-worker-z1", `{"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/missing:1"}}}}`)
	s.ChangeClass(t, "example-worker-z2", `{"zone":"zone-x"}`)
	s.Scale(t, "example-worker-z1", 1)
	s.RunControllers(t, "--unschedulable-grace=2s")

	imageless := awaitOperation(t, s, "example-worker-z1", codes.FailedPrecondition, "ImageNotFound: ")
	s.RequireEvents(t, imageless.Name, "ImageNotFound")
	roomless := awaitOperation(t, s, "example-worker-z2", codes.ResourceExhausted, "Unschedulable: 0/")
	s.RequireEvents(t, roomless.Name, "Unschedulable")
	require.Contains(t, roomless.Status.LastOperation.Description, "zone zone-x", "the place is named")
	s.AwaitEnd(t)
}

// TestQuotaOnTheMachine checks that a failure stays until it is resolved, and that the machine then
// runs without intervention. The driver retries the claim of the image: CDI's own pauses grow to 1000 s.
func TestQuotaOnTheMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.ApplyExample(t)
	limitResource(t, s, "persistentvolumeclaims")
	s.Scale(t, "example-worker-z1", 1)
	s.Scale(t, "example-worker-z2", 0)
	s.RunControllers(t, "--unschedulable-grace=2s")

	failed := awaitOperation(t, s, "example-worker-z1", codes.ResourceExhausted, "QuotaExceeded: ")
	refused := s.Images(t)

	harness.Eventually(t, "the image is created again", func(ctx context.Context) (bool, error) {
		images, err := s.FindImages(ctx)

		return len(images) == len(refused) && !maps.Equal(images, refused), err
	})

	failing, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(t.Context(), failed.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, v1alpha1.MachineStateFailed, failing.Status.LastOperation.State, "the failure is still reported")
	require.Equal(t, codes.ResourceExhausted.String(), failing.Status.LastOperation.ErrorCode)
	unlimit(t, s)

	running := s.AwaitRunning(t, 1)
	require.Contains(t, running, failed.Name, "the machine itself recovers")
	s.AwaitEnd(t)
}

// TestRefusalsOnTheMachine checks that the Machine and its Events show why a machine
// cannot be created or deleted.
func TestRefusalsOnTheMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.ApplyExample(t)
	limitResource(t, s, "count/virtualmachines.kubevirt.io")
	s.Scale(t, "example-worker-z1", 1)
	s.Scale(t, "example-worker-z2", 0)
	s.RunControllers(t, "--resource-exhausted-retry=5s")

	failed := awaitOperation(t, s, "example-worker-z1", codes.ResourceExhausted, "QuotaExceeded: ")
	s.RequireEvents(t, failed.Name, "QuotaExceeded")
	unlimit(t, s)
	require.Contains(t, s.AwaitRunning(t, 1), failed.Name, "the machine itself recovers")

	breakWebhook(admissionv1.Delete, "kubevirt.io", "virtualmachines")(t, s)
	s.Scale(t, "example-worker-z1", 0)
	s.RequireEvents(t, failed.Name, "ProviderUnavailable")
	repairWebhook(t, s)
	s.AwaitEnd(t)
}

// TestAnotherCauseOnTheMachine replaces one failure by another with almost the same text.
// machine-controller-manager does not write similar texts: the code has to differ.
func TestAnotherCauseOnTheMachine(t *testing.T) {
	t.Parallel()

	const words = "Unable to process data: the import of docker://registry.example.com/worker:1, which is the image of this machine's root " +
		"disk, into the volume that was made for it has ended after 512 of 1024 MiB, since the server or the volume refused the rest; this was the fifth of five attempts, each of " +
		"which began anew, a minute after the one before had ended in the same way: "

	importsFail := func(s *harness.Shoot, message string) {
		s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportFaultAnnotation: words + message}})
	}

	s := harness.NewShoot(t)
	importsFail(s, "got 401")
	s.ApplyExample(t)
	s.Scale(t, "example-worker-z1", 1)
	s.Scale(t, "example-worker-z2", 0)
	s.RunControllers(t, "--unschedulable-grace=2s")

	first := awaitOperation(t, s, "example-worker-z1", codes.FailedPrecondition, "ImageUnauthorized: ")
	importsFail(s, "code = ResourceExhausted")

	harness.Eventually(t, "the other failure is there", func(ctx context.Context) (bool, error) {
		m, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, first.Name, metav1.GetOptions{})
		if err != nil || m.Status.LastOperation.ErrorCode != codes.ResourceExhausted.String() {
			return false, err
		}

		now := m.Status.LastOperation.Description
		require.Contains(t, now, "StorageExhausted: ")
		require.Greater(t, mcmstrings.StringSimilarityRatio(importError(t, first.Status.LastOperation.Description), importError(t, now)), 0.75, "%s", now)

		return true, nil
	})
	s.AwaitEnd(t)
}

// importError returns the text of the importer in a description. CDI reports it with the image, with
// its claim or with the claim that it populates, depending on what the driver reads first.
func importError(t *testing.T, description string) string {
	t.Helper()

	_, text, found := strings.Cut(description, "Unable to process data: ")
	require.True(t, found, description)

	return text
}

// TestSlowImportIsNoFailure delays images beyond the time at which a failure would be reported: one
// that a machine imports itself, and one that a machine clones.
func TestSlowImportIsNoFailure(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportLatencyAnnotation: "45s"}})
	s.MakeImage(t, "https://images.example.com/worker.qcow2")
	s.ApplyExample(t)
	s.ChangeClass(t, "example-worker-z2", `{"rootVolume":{"source":{"registry":null,"pvc":{"name":"image"}}}}`)
	s.Scale(t, "example-worker-z1", 1)
	s.RunControllers(t, "--unschedulable-grace=15s") // A failed import is reported after twice that.

	seen := map[string]bool{}
	began := time.Now()

	harness.Eventually(t, "two machines run", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		running := 0

		for i := range list.Items {
			m := &list.Items[i]
			seen[m.Name] = true

			require.NotEqual(t, v1alpha1.MachineStateFailed, m.Status.LastOperation.State, m.Status.LastOperation.Description)
			require.False(t, harness.Exhausted(m), "cluster-autoscaler would give the pool up")

			if m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning {
				running++
			}
		}

		return running == 2, nil
	})
	require.Greater(t, time.Since(began), 40*time.Second, "the imports were slow")
	require.Len(t, seen, 2, "no machine was replaced")
	s.AwaitImageEnd(t)
}

// awaitOperation waits until the last operation of a Machine of this MachineDeployment has this
// code and text, and returns the Machine.
func awaitOperation(t *testing.T, s *harness.Shoot, deployment string, code codes.Code, says string) *v1alpha1.Machine {
	t.Helper()

	var found *v1alpha1.Machine

	harness.Eventually(t, "a Machine of "+deployment+" says "+says, func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + deployment})
		if err != nil {
			return false, err
		}

		for i := range list.Items {
			if last := list.Items[i].Status.LastOperation; last.State == v1alpha1.MachineStateFailed && !harness.IsImporterStarting(last.Description) {
				require.Equal(t, code.String(), last.ErrorCode, last.Description)
				require.Equal(t, v1alpha1.MachineOperationCreate, last.Type)
				require.Contains(t, last.Description, says)

				found = &list.Items[i]
			}
		}

		return found != nil, nil
	})
	t.Log(found.Status.LastOperation.Description)

	return found
}
