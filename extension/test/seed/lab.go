// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// programs are the binaries that the package builds. The folder has those of all commands of the extension.
type programs struct{ folder, lab, driver, extension, admission string }

// build builds the programs into a folder that stays: the go command links again only those that have changed.
func (s *Seed) build(ctx context.Context, progress io.Writer) error {
	into := filepath.Join(s.root, "bin", "seed")
	s.programs = programs{
		folder:    into,
		lab:       filepath.Join(into, "lab"),
		driver:    filepath.Join(into, "machine-controller"),
		extension: filepath.Join(into, "gardener-extension-provider-kubevirt"),
		admission: filepath.Join(into, "gardener-extension-admission-kubevirt"),
	}

	for _, target := range []compile.Program{
		{Name: "the lab", Output: s.programs.lab, Packages: "./test/lab/manager"},
		{Name: "machine-controller", Output: s.programs.driver, Packages: "./cmd/machine-controller"},
		{Name: "the extension and its admission", Module: "extension", Output: into + "/", Packages: "./cmd/..."},
	} {
		target.Root = s.root

		if err := compile.Build(ctx, progress, target); err != nil {
			return err
		}
	}

	args := append([]string{"build", fmt.Sprintf("--monitoring=%t", s.withMonitoring)}, s.labArgs()...)

	return run(ctx, progress, s.root, s.programs.lab, args...)
}

// labArgs are arguments of the lab.
func (s *Seed) labArgs() []string {
	if !s.withRealNodes {
		return []string{"--gardener"}
	}

	return []string{"--gardener", "--nodes=real", "--guest-image"}
}

func run(ctx context.Context, output io.Writer, folder, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = folder
	command.Stdout = output
	command.Stderr = output
	// An interrupted program ends its own children, which write to the output too.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = stopTimeout

	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s %v: %w", filepath.Base(program), args, err)
	}

	return nil
}

// reportStart reports that components start, until stop is called.
func reportStart(progress io.Writer, components string) (stop func()) {
	return screen.Report(progress, func(elapsed time.Duration) string {
		return fmt.Sprintf("start %s, %s", components, screen.Clock(elapsed))
	})
}

// labState is the part of the lab's state that this package uses (test/lab/state.go).
type labState struct {
	Ready                    bool   `json:"ready"`
	ProviderKubeconfig       string `json:"providerKubeconfig"`
	ControlKubeconfig        string `json:"controlKubeconfig"`
	TargetKubeconfig         string `json:"targetKubeconfig"`
	Kubectl                  string `json:"kubectl"`
	KubernetesVersion        string `json:"kubernetesVersion"`
	KubeVirtVersion          string `json:"kubeVirtVersion"`
	CDIVersion               string `json:"cdiVersion"`
	PromQL                   string `json:"promQL"`
	MachineControllerManager string `json:"machineControllerManager"`
	ResourceManager          string `json:"resourceManager"`
	GardenerAPIServer        string `json:"gardenerAPIServer"`
	CSIDriver                string `json:"csiDriver"`
	// Sidecars are the programs beside the CSI driver, by the ends of their images.
	Sidecars      map[string]string `json:"sidecars"`
	ControlEtcd   string            `json:"controlEtcd"`
	GuestImage    string            `json:"guestImage"`
	GuestDisk     string            `json:"guestDisk"`
	GuestUserData string            `json:"guestUserData"`
	LogDir        string            `json:"logDir"`
}

// startLab starts a lab in the seed's group, so that it ends with this process, and waits until it is ready.
func (s *Seed) startLab(ctx context.Context, progress io.Writer) (*labState, error) {
	defer reportStart(progress, "the lab")()

	program := s.programs.lab
	name := filepath.Base(s.Folder)

	args := append([]string{"run", "--name=" + name}, s.labArgs()...)
	if s.withRealNodes {
		args = append(args, "--isolated")
	}

	lab, err := s.group.Start(process.Spec{Name: "lab", Path: program, Args: args})
	if err != nil {
		return nil, err
	}

	const every, atMost = 500 * time.Millisecond, 20 * time.Minute // each time runs a program; real nodes import half a gigabyte each

	state := &labState{}

	err = wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		if err := lab.Err(); err != nil {
			return false, err
		}

		// Without a state, the command fails: the lab has just started.
		output, err := exec.CommandContext(ctx, program, "status", "-o=json", "--name="+name).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return false, nil
		}

		if err != nil {
			return false, fmt.Errorf("run lab status: %w", err)
		}

		err = json.Unmarshal(output, state)

		return state.Ready, err
	})
	if err != nil {
		return nil, fmt.Errorf("start the lab: %w", err)
	}

	return state, nil
}
