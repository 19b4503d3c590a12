// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// tokensTimeLimit bounds the check of all tokens of a shoot. It is shorter than timeLimit: this check
// shares the workers of those that read only the seed.
const tokensTimeLimit = 5 * time.Second

// tokensCheck checks that the provider cluster accepts the tokens of the control plane's programs. The
// ControlPlane controller replaces those that it rejects, when this check has reported them.
type tokensCheck struct {
	seed    client.Reader
	accepts identity.Accepts
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*tokensCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck.
func (c *tokensCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, tokensTimeLimit)
	defer cancel()

	rejected, err := c.accepts.Rejected(ctx, c.seed, request.Namespace, kubevirt.CloudControllerManagerName, kubevirt.CSIControllerName)
	if err != nil {
		return nil, err
	}

	if len(rejected) > 0 {
		return unhealthy(v1beta1helper.NewErrorWithCodes(fmt.Errorf(
			"the provider cluster does not accept the tokens of %s any more; the extension requests new ones with the credentials of the Shoot: if this remains, replace them",
			strings.Join(rejected, " and ")), gardencorev1beta1.ErrorRetryableInfraDependencies)), nil
	}

	return healthy(), nil
}
