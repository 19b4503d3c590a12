// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

const (
	// leasePeriod is short enough for the node-lifecycle controller, which marks a Node as not ready within a minute.
	leasePeriod = 20 * time.Second
	// statusPeriod is how often a kubelet reports a status that has not changed.
	statusPeriod = 5 * time.Minute
)

// runKubelets runs the informers, and writes what the kubelets of all Nodes write, until the test ends.
func (p *pretended) runKubelets(t *testing.T) {
	t.Helper()

	var running sync.WaitGroup

	ctx, cancel := context.WithCancel(t.Context())

	running.Go(func() {
		p.forEachNode(ctx, leasePeriod, func(node string) {
			_ = p.renewLease(ctx, node) // The next round repeats what has failed, and a Node that is not ready fails the test.
		})
	})

	report := func(node string) {
		if err := p.reportStatus(ctx, node); ctx.Err() == nil {
			assert.NoError(t, err, "the sidecar reacts to the reports: without them, it has less to do")
		}
	}

	running.Go(func() { p.forEachNode(ctx, statusPeriod, report) })
	running.Go(func() { p.watchNodes(ctx, report) })
	running.Go(func() { p.machineInformer.Run(ctx.Done()) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// watchNodes calls a function for each Node that becomes not ready: its Lease was renewed late, while the machine was busy. A
// kubelet that sees another status than its own reports it at once, too.
func (p *pretended) watchNodes(ctx context.Context, report func(node string)) {
	var reports errgroup.Group

	reports.SetLimit(harness.FewAtATime)

	// It fails only for informers that have started.
	_, _ = p.nodeInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, updated any) {
		if node := updated.(*corev1.Node); !isReady(node) {
			reports.Go(func() error {
				report(node.Name)

				return nil
			})
		}
	}})
	p.nodeInformer.Run(ctx.Done())

	_ = reports.Wait() // They return no errors.
}

// isReady reports whether the kubelet's last report says so, and is not overdue.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// forEachNode calls a function for each Node once in a period, again and again. The calls are spread over the period.
func (p *pretended) forEachNode(ctx context.Context, period time.Duration, call func(node string)) {
	const every = time.Second

	parts := int(period / every)
	round := time.NewTicker(every)
	defer round.Stop()

	for part := 0; ; part = (part + 1) % parts {
		p.mu.Lock()
		nodes := slices.Clone(p.nodes)
		p.mu.Unlock()

		var calls errgroup.Group

		calls.SetLimit(harness.FewAtATime)

		for i := part; i < len(nodes); i += parts {
			calls.Go(func() error {
				call(nodes[i])

				return nil
			})
		}

		_ = calls.Wait() // They return no errors.

		select {
		case <-ctx.Done():
			return
		case <-round.C:
		}
	}
}

// join creates the Node of a Machine, and its Lease.
func (p *pretended) join(ctx context.Context, name string) error {
	wanted, err := joinedNode(name, p.since)
	if err != nil {
		return err
	}

	node, err := p.Target.CoreV1().Nodes().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return err
	}

	if err := p.createLease(ctx, node); err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	p.nodes = append(p.nodes, name)

	return nil
}

// reportStatus reports the conditions of a Node again, which are those of a healthy one.
func (p *pretended) reportStatus(ctx context.Context, node string) error {
	type status struct {
		Conditions []corev1.NodeCondition `json:"conditions"`
	}

	patch, err := json.Marshal(map[string]status{"status": {Conditions: kubeletConditions(p.since, time.Now())}})
	if err != nil {
		return err
	}

	_, err = p.Target.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")

	return err
}

// createLease creates the Lease that a kubelet renews. It is owned by the Node.
func (p *pretended) createLease(ctx context.Context, node *corev1.Node) error {
	_, err := p.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, RenewTime: new(metav1.NowMicro())},
	}, metav1.CreateOptions{})

	return err
}

func (p *pretended) renewLease(ctx context.Context, name string) error {
	renewed := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := p.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, name, types.MergePatchType, renewed, metav1.PatchOptions{})

	return err
}
