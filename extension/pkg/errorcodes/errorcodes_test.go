// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package errorcodes_test

import (
	"errors"
	"testing"

	"github.com/gardener/gardener/extensions/pkg/util"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
)

func TestKnown(t *testing.T) {
	t.Parallel()

	for text, want := range map[string][]gardencorev1beta1.ErrorCode{
		`Machine m failed: Cloud provider message - machine codes error: code = [ResourceExhausted] message = [QuotaExceeded: ResourceQuota machines]`: {gardencorev1beta1.ErrorInfraQuotaExceeded},
		`machine codes error: code = [InvalidArgument] message = [VolumeTooSmall: DataVolume a]`:                                                       {gardencorev1beta1.ErrorConfigurationProblem},
		`message = [Unschedulable: 0/3 nodes are available]`:                                                                                           {gardencorev1beta1.ErrorInfraResourcesDepleted},
		`message = [CredentialsRefused: Unauthorized: the token has expired]`:                                                                          {gardencorev1beta1.ErrorInfraUnauthenticated},
		`provider cluster: Unauthorized`: {gardencorev1beta1.ErrorInfraUnauthenticated},
		`list VirtualMachines: provider cluster: virtualmachines.kubevirt.io is forbidden: User "a" cannot list resource`:            {gardencorev1beta1.ErrorInfraUnauthorized},
		`provider cluster: pods "a" is forbidden: exceeded quota: machines, requested: pods=1`:                                       {gardencorev1beta1.ErrorInfraQuotaExceeded},
		`provider cluster: the server's name cannot be resolved`:                                                                     {gardencorev1beta1.ErrorRetryableInfraDependencies},
		`provider cluster: no response in time`:                                                                                      {gardencorev1beta1.ErrorRetryableInfraDependencies},
		`provider cluster: Get "https://provider.example.com": dial tcp: lookup provider.example.com: no such host`:                  {gardencorev1beta1.ErrorRetryableInfraDependencies},
		`provider cluster: it does not accept the token of the WorkloadIdentity, which is of the issuer "a" for the audiences ["b"]`: {gardencorev1beta1.ErrorRetryableConfigurationProblem},
		`an image whose name is QuotaExceeded`:                                                                                       nil,
		`secrets "a" is forbidden: User "extension" cannot get resource`:                                                             nil, // of the seed
		`something else`: nil,
	} {
		require.ElementsMatch(t, want, util.DetermineErrorCodes(errors.New(text), errorcodes.Known), text)
	}
}

// TestKnown_RepairedOutsideTheShoot requires that Gardener tries again after a repair that changes no Shoot.
func TestKnown_RepairedOutsideTheShoot(t *testing.T) {
	t.Parallel()

	for _, token := range []string{
		"StorageClassNotFound", "NetworkNotFound", "DataSourceNotFound", "PriorityClassNotFound", "PolicyViolated", "PodSecurityViolated",
		"InstancetypeNotFound", "ClaimNotFound", "CloneSourceNotFound", "ImageNotFound", "ImageUnauthorized", "PreconditionFailed", "ForeignObject",
	} {
		err := errors.New("Machine m failed: Cloud provider message - machine codes error: code = [FailedPrecondition] message = [" + token + ": x]")
		codes := util.DetermineErrorCodes(err, errorcodes.Known)

		require.NotEmpty(t, codes, token)
		require.False(t, v1beta1helper.HasNonRetryableErrorCode(gardencorev1beta1.LastError{Codes: codes}), token)
	}
}
