// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Artifact is something that another package builds, and that is kept like the binaries.
type Artifact struct {
	Name     string // for progress lines
	Set      string // the name of its folder, without the hash
	Hash     string // identifies the version
	Outputs  []string
	Estimate time.Duration
	// MaxAge is the age after which it is built again; zero means never.
	MaxAge time.Duration
	// Produce writes the outputs, and possibly temporary files, into a folder.
	Produce func(ctx context.Context, into string) error
}

// Built reports whether the outputs exist and are recent.
func (a Artifact) Built() (bool, error) {
	cache, err := CacheDir()
	if err != nil {
		return false, err
	}
	for _, name := range a.Outputs {
		info, err := os.Stat(filepath.Join(cache, a.Set+"-"+a.Hash, name))
		if err != nil || a.isOld(info, time.Now()) {
			return false, nil //nolint:nilerr // it is missing
		}
	}
	return true, nil
}

// isOld reports whether an output is too old.
func (a Artifact) isOld(output os.FileInfo, now time.Time) bool {
	return a.MaxAge > 0 && now.Sub(output.ModTime()) >= a.MaxAge
}

// EnsureArtifact returns the folder with the outputs, and first builds them if they are missing or too
// old. Concurrent callers build only once.
func EnsureArtifact(ctx context.Context, progress io.Writer, a Artifact) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, a.Set+"-"+a.Hash)
	if err := a.expire(target, time.Now()); err != nil {
		return "", err
	}
	s := step{
		number:   1,
		name:     a.Name,
		target:   target,
		outputs:  a.Outputs,
		estimate: a.Estimate,
		produce:  func(ctx context.Context, _ step, into string) error { return a.produce(ctx, into, time.Now()) },
	}
	if s.done() {
		return target, nil
	}
	if err := build(ctx, cache, []step{s}, progress); err != nil {
		return "", err
	}
	return target, layout{targets: map[string]string{a.Set: target}}.prune(time.Now())
}

// produce sets the times by which isOld judges: unpacked files have those of their package.
func (a Artifact) produce(ctx context.Context, into string, now time.Time) error {
	if err := a.Produce(ctx, into); err != nil {
		return err
	}
	for _, name := range a.Outputs {
		if err := os.Chtimes(filepath.Join(into, name), now, now); err != nil {
			return fmt.Errorf("set the time of %s: %w", name, err)
		}
	}
	return nil
}

const (
	// expired is the beginning of the names of outputs that were too old, before the time when they were found so.
	expired = ".expired-"
	// keepExpiredFor is for the labs that use them.
	keepExpiredFor = 24 * time.Hour
)

// expire sets outputs aside that are too old, and removes those that it set aside a day ago.
func (a Artifact) expire(target string, now time.Time) error {
	aside, err := filepath.Glob(filepath.Join(target, expired+"*"))
	if err != nil {
		return fmt.Errorf("list what is too old: %w", err)
	}
	for _, file := range aside {
		when, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(file), expired), "-")
		seconds, err := strconv.ParseInt(when, 10, 64)
		if err == nil && now.Sub(time.Unix(seconds, 0)) < keepExpiredFor {
			continue
		}
		if err := os.RemoveAll(file); err != nil {
			return fmt.Errorf("remove %s, which is too old: %w", file, err)
		}
	}
	for _, name := range a.Outputs {
		file := filepath.Join(target, name)
		info, err := os.Stat(file)
		if err != nil || !a.isOld(info, now) {
			continue
		}
		if err := os.Rename(file, filepath.Join(target, fmt.Sprintf("%s%d-%s", expired, now.Unix(), name))); err != nil {
			return fmt.Errorf("set %s aside, which is too old: %w", file, err)
		}
	}
	return nil
}
