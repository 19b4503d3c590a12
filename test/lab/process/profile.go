// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Profile writes a profile of a program's processor time to a file. The program serves it at an address (net/http/pprof).
func Profile(ctx context.Context, address, file string, during time.Duration) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", address, during.Seconds())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("request a profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("request a profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // Fully read.
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("request %s: %s", url, response.Status)
	}
	to, err := os.Create(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	_, err = io.Copy(to, response.Body)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return nil
}

// Hottest prints two tables of a profile: the functions of this repository, each with what it calls in other modules, and
// all functions by cumulative time.
func Hottest(ctx context.Context, file string) (string, error) {
	const own = `machine-controller-manager-provider-kubevirt/|^main\.`
	text := ""
	for _, table := range [][]string{
		{"-nodecount=15", "-show=" + own},
		{"-nodecount=60", "-cum"},
	} {
		args := append([]string{"tool", "pprof", "-symbolize=none", "-top"}, append(table, file)...)
		output, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			return "", fmt.Errorf("print the profile %s: %w", file, err)
		}
		text += string(output) + "\n"
	}
	return text, nil
}
