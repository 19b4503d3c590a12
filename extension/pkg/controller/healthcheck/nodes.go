// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"errors"
	"fmt"

	extensionsconfigv1alpha1 "github.com/gardener/gardener/extensions/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck/worker"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// nodesCheck runs Gardener's check of machines and nodes. The library would inject the client of a
// shoot into one check that all concurrent reconciliations share: the nodes of one shoot could be read
// for another. Therefore, each call has a check of its own.
type nodesCheck struct {
	seed client.Client
}

// nodeMapper maps the only kind that the check reads in the shoot, without requests for discovery.
func nodeMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)

	return m
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*nodesCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck.
func (c *nodesCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	_, shoot, err := util.NewClientForShoot(ctx, c.seed, request.Namespace, client.Options{Mapper: nodeMapper()}, extensionsconfigv1alpha1.RESTOptions{Timeout: ptr.To(timeLimit)})
	if err != nil {
		return nil, fmt.Errorf("create client of the shoot: %w", err)
	}

	check := worker.NewNodesChecker()
	check.SetLoggerSuffix(kubevirt.Type, extensionsv1alpha1.WorkerResource)
	check.InjectSourceClient(c.seed)
	check.InjectTargetClient(shoot)

	result, err := check.Check(ctx, request)
	if err == nil && result.Detail != "" {
		result.Codes = util.DetermineErrorCodes(errors.New(result.Detail), errorcodes.Known)
	}

	return result, err
}
