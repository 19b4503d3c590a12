// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// shootDiagnosis is the part of the output of `mcm-kubevirt diagnose --shoot` that the test needs.
type shootDiagnosis struct {
	Result     string `json:"result"`
	WaitingFor string `json:"waitingFor"`
	Cause      *struct {
		Link    string   `json:"link"`
		Reason  string   `json:"reason"`
		Message string   `json:"message"`
		Codes   []string `json:"codes"`
	} `json:"cause"`
}

// TestDiagnoseShoot diagnoses a Shoot from the objects that gardenlet's deployers and the extension
// write: first with a wrong Infrastructure, then with a correct one.
func TestDiagnoseShoot(t *testing.T) {
	t.Parallel()

	program := filepath.Join(t.TempDir(), "mcm-kubevirt")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "./cmd/mcm-kubevirt")
	build.Dir = filepath.Join("..", "..", "..")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	shoot := newShoot(t, named("diagnosed"))
	correct := shoot.Object.DeepCopy()
	profile := shoot.Profile.DeepCopy()

	shoot.Object.Spec.Provider.InfrastructureConfig = config(t, "InfrastructureConfig", "network: {}")
	require.NoError(t, shoot.Sync(t.Context()))
	require.NoError(t, shoot.Infrastructure().Deploy(t.Context()))

	eventually(t, func(ctx context.Context) (bool, string) {
		d, code, text := diagnose(ctx, program, shoot)

		return code == 1 && d.Cause != nil && d.Cause.Reason == "InfrastructureFailed", text
	})

	d, _, text := diagnose(t.Context(), program, shoot)
	require.Equal(t, "Infrastructure "+shoot.Namespace+"/"+shoot.Object.Name, d.Cause.Link, text)
	require.Contains(t, d.Cause.Message, "spec.provider.infrastructureConfig.network")
	require.Contains(t, d.Cause.Codes, "ERR_CONFIGURATION_PROBLEM")

	restore(t, shoot, correct, profile)
	require.NoError(t, shoot.Sync(t.Context()))
	require.NoError(t, shoot.Infrastructure().Deploy(t.Context()))
	require.NoError(t, shoot.Infrastructure().Wait(t.Context()))

	d, code, text := diagnose(t.Context(), program, shoot)
	require.Zero(t, code, text)
	require.Nil(t, d.Cause, text)
	require.Contains(t, d.WaitingFor, "gardenlet has not created it")
	requireNothingLeft(t, shoot)
}

// diagnose runs the command with the kubeconfig of the seed.
func diagnose(ctx context.Context, program string, shoot *seed.Botanist) (d shootDiagnosis, code int, text string) {
	output, err := exec.CommandContext(ctx, program, "diagnose", "--kubeconfig="+theSeed.Kubeconfigs().Seed, "--shoot="+shoot.Namespace, "--output=json").Output()

	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code = failed.ExitCode()
		text = string(failed.Stderr)
	}

	if err := json.Unmarshal(output, &d); err != nil {
		return d, code, text + err.Error()
	}

	return d, code, text + string(output)
}
