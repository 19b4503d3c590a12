// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider runs machine-controller-manager's integration suite for its providers
// (pkg/test/integration/common of its module), wired as Gardener's providers wire it: real
// processes of machine-controller-manager and of the sidecar, started by `make start`, and a
// ResourcesTracker that looks for orphans. It has its own lab, since the suite counts all Nodes of
// the target cluster and finally deletes machine-controller-manager's CustomResourceDefinitions. It
// knows the driver only as a binary.
package provider

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/test/integration/common"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// The suite bounds every wait by timeoutSeconds and polls every intervalSeconds.
const (
	timeoutSeconds  = 600
	intervalSeconds = 1
)

// machines is the minimum number of machines created by the suite: one standalone, six of a
// MachineDeployment, and four of its next version.
const machines = 1 + 6 + 4

// TestSoakProviderSuite runs the suite in a separate process, since the suite reads the environment
// at process start, and reads files relative to the working folder.
func TestSoakProviderSuite(t *testing.T) {
	if os.Getenv(providerKubeconfig) != "" {
		runSpecs(t)

		return
	}

	lab := startLab(t)
	shoot, err := lab.AddShoot(t.Context(), "suite")
	require.NoError(t, err)

	objects := watchObjects(t, lab.Provider.Config(), shoot.ProviderNamespace)
	suite := newWorkspace(t, lab, shoot).command(t)
	bystander := startBystander(t)

	startGroup(t).run(t, suite)

	select {
	case <-bystander:
		require.Fail(t, "the suite killed a process of another run")
	default:
	}

	objects.requireMachines(t, machines)
	objects.requireNothingLeft(t)
	require.NoError(t, lab.Health())
}

// startLab starts a lab that ends with the test.
func startLab(t *testing.T) *environment.Lab {
	t.Helper()

	lab, err := environment.Start(t.Context(), environment.Options{Progress: os.Stderr})
	require.NoError(t, err)

	t.Cleanup(func() {
		if t.Failed() {
			lab.KeepLogs = true
			t.Log("the lab's logs are in", lab.LogDir)
		}

		require.NoError(t, lab.Stop(context.WithoutCancel(t.Context())))
	})

	return lab
}

// runSpecs runs the specs as Gardener's providers do in test/integration/controller.
func runSpecs(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)

	framework := common.NewIntegrationTestFramework(&resourcesTracker{}, timeoutSeconds, intervalSeconds)

	ginkgo.BeforeSuite(framework.SetupBeforeSuite)
	ginkgo.AfterSuite(framework.Cleanup)
	ginkgo.Describe("Machine controllers test", func() {
		framework.BeforeEachCheck()
		framework.ControllerTests()
	})
	ginkgo.RunSpecs(t, "Controller Suite")
}
