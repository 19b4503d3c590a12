//go:build soak || bench

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// few is the number of concurrent creations when there are thousands.
const few = 16

// forEach calls do for each index, with limited concurrency, until all calls have
// succeeded or one has failed.
func forEach(t *testing.T, many, atATime int, do func(ctx context.Context, i int) error) {
	t.Helper()

	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atATime)

	for i := range many {
		group.Go(func() error { return do(ctx, i) })
	}

	require.NoError(t, group.Wait())
}

// haltedVMs creates VirtualMachines of the shoot that are never started, and others of another
// shoot in the same namespace.
func (s *shoot) haltedVMs(t *testing.T, many, others int) {
	t.Helper()

	halted := func(ctx context.Context, name, cluster string) error {
		_, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(ctx, &kubevirtv1.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"mcm.gardener.cloud/cluster": cluster, "mcm.gardener.cloud/role": "node"}},
			Spec: kubevirtv1.VirtualMachineSpec{
				RunStrategy: new(kubevirtv1.RunStrategyHalted), Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{},
			},
		}, metav1.CreateOptions{})

		return err
	}

	forEach(t, many, few, func(ctx context.Context, i int) error { return halted(ctx, fmt.Sprintf("m-%d", i), s.Namespace) })
	forEach(t, others, few, func(ctx context.Context, i int) error { return halted(ctx, fmt.Sprintf("o-%d", i), s.Namespace+"-b") })
}
