// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is a changed operator, as gremlins reports it.
type mutant struct {
	file string

	Type   string `json:"type"`
	Status string `json:"status"`
	Line   int    `json:"line"`
}

// mutate runs the tests of a folder's packages, once for each mutant.
func (f folder) mutate(ctx context.Context, out io.Writer, tool string) ([]mutant, error) {
	work, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the report: %w", err)
	}

	defer func() { _ = os.RemoveAll(work) }()

	flags, err := f.modfile(work)
	if err != nil {
		return nil, err
	}

	result := filepath.Join(work, "report.json")
	args := append(strings.Fields(tool), "unleash", "./"+f.path, "--silent", "--output", result, "--exclude-files", `zz_generated|\.pb\.go$`)

	if !f.recursive {
		args = append(args, "--exclude-files", "/")
	}

	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = f.module
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+flags))

	fmt.Fprintf(out, "== %s\n", filepath.Join(f.module, f.path))

	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("run gremlins in %s: %w", filepath.Join(f.module, f.path), err)
	}

	return f.read(result)
}

// modfile returns the flag with which a copy of the module finds the modules that it replaces: gremlins changes
// a copy in another folder, from which their relative paths lead nowhere.
func (f folder) modfile(work string) (string, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return "", fmt.Errorf("find the folder of the repository: %w", err)
	}

	for name, replace := range map[string]string{"go.mod": "=> ../", "go.sum": ""} {
		content, err := os.ReadFile(filepath.Join(f.module, name))
		if err != nil {
			return "", fmt.Errorf("copy the module's files: %w", err)
		}

		if replace != "" {
			content = []byte(strings.ReplaceAll(string(content), replace, "=> "+root))
		}

		if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
			return "", fmt.Errorf("copy the module's files: %w", err)
		}
	}

	return "-modfile=" + filepath.Join(work, "go.mod"), nil
}

// read reads the report of gremlins.
func (f folder) read(name string) ([]mutant, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}

	report := struct {
		Files []struct {
			Name    string   `json:"file_name"`
			Mutants []mutant `json:"mutations"`
		} `json:"files"`
	}{}
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}

	var all []mutant

	for _, file := range report.Files {
		for _, m := range file.Mutants {
			m.file = filepath.Join(f.module, f.path, file.Name)
			all = append(all, m)
		}
	}

	return all, nil
}
