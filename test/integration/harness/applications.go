// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// Application is a workload of the shoot's owner on the nodes of a pool, with a PodDisruptionBudget
// that allows one disruption at a time.
type Application struct {
	Name     string
	Pool     string
	Replicas int32
	// Node is the preferred node of its pods; if empty they spread.
	Node string
}

// RunApplication starts an application, and waits until all its pods are ready and its
// PodDisruptionBudget allows a disruption. The target's own scheduler, controllers and eviction API
// manage it.
func (s *Shoot) RunApplication(t *testing.T, app Application) {
	t.Helper()

	selector := &metav1.LabelSelector{MatchLabels: map[string]string{observer.AppLabel: app.Name}}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: new(intstr.FromInt32(1))},
	}
	budgets := s.Target.PolicyV1().PodDisruptionBudgets(s.Namespace)
	_, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	require.NoError(t, err)

	replicaSets := s.Target.AppsV1().ReplicaSets(s.Namespace)
	_, err = replicaSets.Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &app.Replicas,
			Selector: selector,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: app.pod(selector)},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	Eventually(t, "all pods of "+app.Name+" are ready", func(ctx context.Context) (bool, error) {
		got, err := replicaSets.Get(ctx, app.Name, metav1.GetOptions{})

		return err == nil && got.Status.ReadyReplicas == app.Replicas, err
	})
	// The API server refuses evictions until the disruption controller has counted the pods.
	Eventually(t, "the budget of "+app.Name+" allows an eviction", func(ctx context.Context) (bool, error) {
		got, err := budgets.Get(ctx, app.Name, metav1.GetOptions{})

		return err == nil && got.Status.ObservedGeneration == got.Generation && got.Status.CurrentHealthy == app.Replicas &&
			got.Status.DisruptionsAllowed == 1, err
	})
}

func (app Application) pod(selector *metav1.LabelSelector) corev1.PodSpec {
	pod := corev1.PodSpec{
		NodeSelector: map[string]string{PoolLabel: app.Pool},
		Containers:   []corev1.Container{{Name: "main", Image: "registry.example.com/" + app.Name + ":1"}},
	}

	if app.Node == "" {
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew:           1,
			TopologyKey:       corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     selector,
		}}

		return pod
	}

	const most = 100

	pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: most,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn,
				Values:   []string{app.Node},
			}}},
		}},
	}}

	return pod
}

// StopApplication deletes an application, even if some of its pods are on nodes that no longer
// exist.
func (s *Shoot) StopApplication(t *testing.T, app Application) {
	t.Helper()

	require.NoError(t, s.Target.AppsV1().ReplicaSets(s.Namespace).Delete(t.Context(), app.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}))
	require.NoError(t, s.Target.PolicyV1().PodDisruptionBudgets(s.Namespace).Delete(t.Context(), app.Name, metav1.DeleteOptions{}))
	require.NoError(t, s.Target.CoreV1().Pods(s.Namespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: observer.AppLabel + "=" + app.Name}))
}
