// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// outage is a provider cluster that is broken, and what the owner of a Shoot reads.
type outage struct {
	name string
	// begin breaks the provider cluster, and returns what repairs it.
	begin     func(*testing.T, *seed.Botanist) (end func())
	condition gardencorev1beta1.ConditionType
	// resource is the kind of the extension resource that reports the outage.
	resource string
	texts    []string
	code     gardencorev1beta1.ErrorCode
}

func outages() []outage {
	const (
		provider, infrastructure = gardencorev1beta1.ShootControlPlaneHealthy, "Infrastructure"
		unavailable              = gardencorev1beta1.ErrorRetryableInfraDependencies
	)

	return []outage{
		{
			name:      "server that never responds",
			begin:     silence,
			condition: provider,
			resource:  infrastructure,
			code:      unavailable,
			texts:     []string{"no response in time", "check its API server, the network"},
		},
		{
			name:      "credentials that are no longer valid",
			begin:     revoke,
			condition: provider,
			resource:  infrastructure,
			code:      gardencorev1beta1.ErrorInfraUnauthenticated,
			texts:     []string{"replace the credentials of the Shoot"},
		},
		{
			name:      "account without permissions",
			begin:     forbid,
			condition: provider,
			resource:  infrastructure,
			code:      gardencorev1beta1.ErrorInfraUnauthorized,
			texts:     []string{"virtualmachines.kubevirt.io is forbidden: User", "extension/kubernetes/provider-namespace"},
		},
		{
			name:      "KubeVirt is not available",
			begin:     stopKubeVirt,
			condition: provider,
			resource:  infrastructure,
			code:      unavailable,
			texts:     []string{"KubeVirt of the provider cluster is not available: virt-api is not ready; repair it"},
		},
		{
			name:      "CDI is not available",
			begin:     stopCDI,
			condition: provider,
			resource:  infrastructure,
			code:      unavailable,
			texts:     []string{"CDI of the provider cluster is not available: cdi-deployment is not ready; repair it"},
		},
		{
			name:      "DataVolume that fails",
			begin:     failImport,
			condition: gardencorev1beta1.ShootEveryNodeReady,
			resource:  "Worker",
			code:      gardencorev1beta1.ErrorRetryableConfigurationProblem,
			texts:     []string{"ImportFailed: golden-", "got 404", "correct the image"},
		},
	}
}

// TestHealthConditions breaks the provider cluster of a shoot in six ways, and repairs it again.
func TestHealthConditions(t *testing.T) { //nolint:tparallel // The outages affect one shoot.
	t.Parallel()

	shoot := newShootWith(t, seed.AccountIn("health"), oneMachine(t, "health", ""))
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)
	requireHealthy(t, shoot)

	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			start := time.Now()

			end := sync.OnceFunc(o.begin(t, shoot))
			defer end()

			requireReported(t, shoot, o)
			t.Log("reported after", time.Since(start).Round(time.Second))

			end()
			requireHealthy(t, shoot)
		})
	}

	t.Run("deleted", func(t *testing.T) { requireNothingLeft(t, shoot) })
}

// requireReported waits until the condition of the Shoot is False because of the outage. A condition may
// have another text at first: CDI has no message while an importer that has failed runs again.
func requireReported(t *testing.T, shoot *seed.Botanist, o outage) {
	t.Helper()

	var seen gardencorev1beta1.Condition

	eventually(t, func(ctx context.Context) (bool, string) {
		seen = conditionOf(ctx, shoot, o.condition)

		return seen.Status == gardencorev1beta1.ConditionFalse && containsAll(seen.Message, o.texts), seen.Message
	})

	t.Log(seen.Reason, seen.Codes, seen.Message)
	require.Equal(t, o.resource+"UnhealthyReport", seen.Reason)
	require.Equal(t, []gardencorev1beta1.ErrorCode{o.code}, seen.Codes)
}

func containsAll(message string, texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(message, text) })
}

// requireHealthy waits until both conditions are True.
func requireHealthy(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	for _, kind := range []gardencorev1beta1.ConditionType{gardencorev1beta1.ShootControlPlaneHealthy, gardencorev1beta1.ShootEveryNodeReady} {
		eventually(t, func(ctx context.Context) (bool, string) {
			seen := conditionOf(ctx, shoot, kind)

			return seen.Status == gardencorev1beta1.ConditionTrue, string(kind) + ": " + string(seen.Status) + ": " + seen.Message
		})
	}
}

// conditionOf returns a condition, and makes the extension check the shoot again soon: it checks when
// the Cluster changes.
func conditionOf(ctx context.Context, shoot *seed.Botanist, kind gardencorev1beta1.ConditionType) gardencorev1beta1.Condition {
	condition, err := shoot.Condition(ctx, kind)
	if err == nil {
		err = shoot.Sync(ctx)
	}

	if err != nil {
		return gardencorev1beta1.Condition{Status: gardencorev1beta1.ConditionUnknown, Message: err.Error()}
	}

	return condition
}

func silence(t *testing.T, shoot *seed.Botanist) func() {
	t.Helper()
	require.NoError(t, shoot.SetCredentials(t.Context(), []byte(silentServer(t))))

	return func() { require.NoError(t, shoot.SetCredentials(t.Context(), shoot.Kubeconfig)) }
}

func revoke(t *testing.T, shoot *seed.Botanist) func() {
	t.Helper()
	require.NoError(t, shoot.RevokeCredentials(t.Context()))

	return func() { require.NoError(t, shoot.RotateCredentials(t.Context())) }
}

// forbid deletes the RoleBindings in the namespace of the machines.
func forbid(t *testing.T, shoot *seed.Botanist) func() {
	t.Helper()

	list := &rbacv1.RoleBindingList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), list, client.InNamespace(shoot.ProviderNamespace)))
	require.NotEmpty(t, list.Items)

	for i := range list.Items {
		require.NoError(t, theSeed.Provider.Delete(t.Context(), &list.Items[i]))
	}

	return func() {
		for i := range list.Items {
			list.Items[i].ResourceVersion = ""
			require.NoError(t, theSeed.Provider.Create(t.Context(), &list.Items[i]))
		}
	}
}

// stopKubeVirt writes the report of KubeVirt's operator, which the lab does not run. All shoots of the
// suite have this provider cluster: no other test reads their conditions, and no component of the lab
// reads the report.
func stopKubeVirt(t *testing.T, _ *seed.Botanist) func() {
	t.Helper()

	healthy := &kubevirtv1.KubeVirt{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: "kubevirt", Name: "kubevirt"}, healthy))

	stopped := healthy.DeepCopy()
	stopped.Status.Conditions = []kubevirtv1.KubeVirtCondition{
		{Type: kubevirtv1.KubeVirtConditionAvailable, Status: corev1.ConditionFalse, Reason: "DeploymentInProgress", Message: "virt-api is not ready"},
	}
	require.NoError(t, theSeed.Provider.Status().Patch(t.Context(), stopped.DeepCopy(), client.MergeFrom(healthy)))

	return func() {
		require.NoError(t, theSeed.Provider.Status().Patch(t.Context(), healthy.DeepCopy(), client.MergeFrom(stopped)))
	}
}

// stopCDI writes the report of CDI's operator, as stopKubeVirt does.
func stopCDI(t *testing.T, _ *seed.Botanist) func() {
	t.Helper()

	report := func(conditions string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"conditions": `+conditions+`}}`))
		require.NoError(t, theSeed.Provider.Patch(t.Context(), &cdiv1beta1.CDI{ObjectMeta: metav1.ObjectMeta{Name: "cdi"}}, patch))
	}

	report(`[{"type": "Available", "status": "False"}, {"type": "Degraded", "status": "True", "message": "cdi-deployment is not ready"}]`)

	return func() { report(`[{"type": "Available", "status": "True"}]`) }
}

// failImport adds a pool without machines, whose image cannot be downloaded (test/lab/dataplane).
func failImport(t *testing.T, shoot *seed.Botanist) func() {
	t.Helper()

	fault := func(message string) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shoot.ProviderNamespace}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"sim.lab/import-fault": `+message+`}}}`))
		require.NoError(t, theSeed.Provider.Patch(t.Context(), namespace, patch))
	}

	fault(`"Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"`)

	second := *pool(shoot, 0).DeepCopy()
	second.Name = "second"
	second.Minimum = 0
	second.Machine.Image.Version = new("20.4.20210401")
	shoot.Object.Spec.Provider.Workers = append(shoot.Object.Spec.Provider.Workers, second)
	require.NoError(t, shoot.Reconcile(t.Context()))

	return func() {
		fault("null")

		// The kubelet waits before it restarts the importer; CDI creates it again at once.
		importers := client.MatchingLabels{"app": "containerized-data-importer"}
		require.NoError(t, theSeed.Provider.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(shoot.ProviderNamespace), importers))
	}
}
