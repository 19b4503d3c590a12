// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// importer is one run of CDI's importer.
type importer struct {
	volumes []string // names of PersistentVolumes that it writes
	cancel  context.CancelFunc
	ended   chan struct{}
	result  hypervisor.ImporterResult // set before ended is closed
}

// Import implements hypervisor.Volumes.
func (h *Hypervisor) Import(run hypervisor.ImporterRun) (hypervisor.ImporterResult, bool) {
	h.mu.Lock()
	i := h.imports[run.ID]
	if i == nil {
		i = h.startImporter(run)
		h.imports[run.ID] = i
	}
	h.mu.Unlock()
	select {
	case <-i.ended:
		return i.result, true
	default:
		return hypervisor.ImporterResult{}, false
	}
}

func (h *Hypervisor) startImporter(run hypervisor.ImporterRun) *importer {
	ctx, cancel := context.WithCancel(h.ctx)
	i := &importer{volumes: []string{run.Volume, run.Scratch}, cancel: cancel, ended: make(chan struct{})}
	h.running.Go(func() {
		defer close(i.ended)
		defer cancel()
		i.result = h.runImporter(ctx, run)
	})
	return i
}

// stopImporters ends the importers that write a volume, and returns when they have ended.
func (h *Hypervisor) stopImporters(volume string) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.imports))
	h.mu.Unlock()
	for _, i := range all {
		if slices.Contains(i.volumes, volume) {
			i.cancel()
			<-i.ended
		}
	}
}

// runImporter returns the result of an importer. Errors of the lab become results, too: cdi-controller
// reports them, and its pod is restarted.
func (h *Hypervisor) runImporter(ctx context.Context, run hypervisor.ImporterRun) hypervisor.ImporterResult {
	dir := filepath.Join(h.options.Dir, "imports", run.ID)
	message := filepath.Join(dir, "termination-message")
	err := h.tryImport(ctx, run, dir, message)
	text, unread := os.ReadFile(filepath.Clean(message))
	result := hypervisor.ImporterResult{Message: string(text)}
	if err != nil {
		result.Code = 1
	}
	if unread != nil {
		result = hypervisor.ImporterResult{Code: 1, Message: errors.Join(err, unread).Error()}
	}
	h.log.Info("imported", "volume", run.Volume, "endpoint", run.Env["IMPORTER_ENDPOINT"], "code", result.Code, "message", result.Message)
	return result
}

func (h *Hypervisor) tryImport(ctx context.Context, run hypervisor.ImporterRun, dir, message string) error {
	certificates := filepath.Join(dir, "certificates")
	if err := writeFiles(certificates, run.CA); err != nil {
		return err
	}
	args := []string{"--data=" + h.volume(run.Volume), "--termination-message=" + message}
	folders := []string{h.volume(run.Volume)}
	if run.Scratch != "" {
		folders = append(folders, h.volume(run.Scratch))
		args = append(args, "--scratch="+h.volume(run.Scratch))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	env := []string{"TMPDIR=" + dir}
	for name, value := range run.Env {
		env = append(env, name+"="+value)
	}
	if len(run.CA) > 0 {
		env = append(env, "IMPORTER_CERT_DIR="+certificates)
	}
	return h.await(ctx, process.Spec{
		Name: "importer-" + run.ID[:min(8, len(run.ID))],
		Path: "nice",
		Args: append([]string{"-n", "10", "unshare"}, contained(h.options.Importer, args...)...),
		Env:  env,
		Kill: true,
	})
}

// await runs a program until it has ended.
func (h *Hypervisor) await(ctx context.Context, spec process.Spec) error {
	p, err := h.options.Group.Start(spec)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
		return p.Failure()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Stop(context.WithoutCancel(ctx)))
	}
}

// writeFiles writes files into a new folder.
func writeFiles(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
