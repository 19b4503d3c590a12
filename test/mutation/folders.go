// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// folder is a folder with Go packages of one module.
type folder struct {
	// module is the folder of the module, and path the folder within it.
	module, path string
	// recursive includes the folders below path.
	recursive bool
}

// roots are the folders whose packages have unit tests of their own.
var roots = []folder{{".", "api", true}, {".", "pkg", true}, {".", "tools", true}, {"extension", "pkg", true}}

// foldersOf returns the folders of the packages that changed since a commit; all for an empty one.
func foldersOf(ctx context.Context, base string) ([]folder, error) {
	if base == "" {
		return roots, nil
	}

	out, err := exec.CommandContext(ctx, "git", "diff", "--name-only", "--merge-base", base, "--", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files that changed since %s: %w", base, err)
	}

	var changed []folder

	for name := range strings.Lines(string(out)) {
		f, found := folderOf(strings.TrimSpace(name))
		if found && !slices.Contains(changed, f) {
			changed = append(changed, f)
		}
	}

	return changed, nil
}

// folderOf returns the folder of a file, unless it is not below one of the roots, or does not exist any more.
func folderOf(name string) (folder, bool) {
	for _, root := range roots {
		path, err := filepath.Rel(root.module, filepath.Dir(name))
		if err != nil || (path != root.path && !strings.HasPrefix(path, root.path+"/")) {
			continue
		}

		_, err = os.Stat(filepath.Dir(name))

		return folder{module: root.module, path: path}, err == nil
	}

	return folder{}, false
}
