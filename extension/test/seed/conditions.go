// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health/checker"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNoHeartbeat = errors.New("the extension has no heartbeat")

// Condition returns a condition of the Shoot as gardenlet derives it from the conditions of the
// extension's resources and from the extension's heartbeat. It is Unknown if no resource has it.
// gardenlet's checks of other components are not part of it.
func (s *Botanist) Condition(ctx context.Context, kind gardencorev1beta1.ConditionType) (gardencorev1beta1.Condition, error) {
	reported, err := s.extensionConditions(ctx, kind)
	if err != nil {
		return gardencorev1beta1.Condition{}, err
	}

	if len(reported) == 0 {
		return gardencorev1beta1.Condition{Type: kind, Status: gardencorev1beta1.ConditionUnknown}, nil
	}

	stale := &metav1.Duration{Duration: 5 * time.Minute} // gardenlet's default

	condition := gardencorev1beta1.Condition{Type: kind, Status: gardencorev1beta1.ConditionTrue}
	if failed := checker.NewHealthChecker(log, s.seed.Client, clock.RealClock{}).CheckExtensionCondition(condition, reported, stale); failed != nil {
		condition = *failed
	}

	return condition, nil
}

// heartbeat returns the extension's heartbeat. The names of the namespaces that gardenlet creates have a suffix.
func (s *Seed) heartbeat(ctx context.Context) (*coordinationv1.Lease, error) {
	leases := &coordinationv1.LeaseList{}
	if err := s.Client.List(ctx, leases); err != nil {
		return nil, fmt.Errorf("list Leases: %w", err)
	}

	for i := range leases.Items {
		if lease := &leases.Items[i]; lease.Name == extensions.HeartBeatResourceName && strings.HasPrefix(lease.Namespace, ExtensionNamespace) {
			return lease, nil
		}
	}

	return nil, errNoHeartbeat
}

// extensionConditions returns the conditions of one type. gardenlet reads more kinds, which other
// extensions reconcile.
func (s *Botanist) extensionConditions(ctx context.Context, kind gardencorev1beta1.ConditionType) (found []checker.ExtensionCondition, _ error) {
	lease, err := s.seed.heartbeat(ctx)
	if err != nil {
		return nil, err
	}

	for name, list := range map[string]client.ObjectList{
		extensionsv1alpha1.InfrastructureResource: &extensionsv1alpha1.InfrastructureList{},
		extensionsv1alpha1.ControlPlaneResource:   &extensionsv1alpha1.ControlPlaneList{},
		extensionsv1alpha1.WorkerResource:         &extensionsv1alpha1.WorkerList{},
	} {
		if err := s.seed.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}

		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(extensionsv1alpha1.Object)
			if !ok {
				return fmt.Errorf("%T is not an extension resource", item)
			}

			for _, c := range object.GetExtensionStatus().GetConditions() {
				if c.Type == kind {
					found = append(found, checker.ExtensionCondition{
						Condition:          c,
						ExtensionType:      name,
						ExtensionName:      object.GetName(),
						ExtensionNamespace: s.Namespace,
						LastHeartbeatTime:  lease.Spec.RenewTime,
					})
				}
			}

			return nil
		}); err != nil {
			return nil, err
		}
	}

	return found, nil
}
