// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Folder contains a kubeconfig per cluster, in a file with the cluster's name. It may be a mounted
// Secret. It is read on every call, so that changes take effect at once.
type Folder string

// For returns the kubeconfig for a cluster. The name is untrusted input: For never reads a file
// outside the folder.
func (f Folder) For(cluster string) (raw []byte, err error) {
	folder, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, fmt.Errorf("open the folder of kubeconfigs: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()

	file, err := folder.Open(cluster)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no kubeconfig for cluster %q: add a file of that name to %s", cluster, string(f))
	}

	if err != nil {
		return nil, fmt.Errorf("open the kubeconfig for cluster %q: %w", cluster, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()

	// Read one byte more than is accepted, so that a larger file is refused for its size.
	raw, err = io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig for cluster %q: %w", cluster, err)
	}

	return raw, nil
}
