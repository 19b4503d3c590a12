// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package root unpacks the root folder of real nodes, which is also the lower layer of virt-launcher's image: packages of Debian.
//
// Package node runs nodes from it, and package images archives it. It must not depend on either of them.
package root

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

//go:embed packages.txt
var packageList string

const (
	// suite has a libvirt and a QEMU that are one minor version older than those of KubeVirt 1.9. Those of
	// Debian 12 refuse its domains.
	suite = "trixie"
	// keyring signs the packages; the one of Debian 12 knows the suite, too.
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// maxAge bounds the age of the folder, since Debian changes the packages of a suite.
	maxAge = 30 * 24 * time.Hour
	folder = "root"
)

// Ensure returns the root folder, and first unpacks it unless a recent one exists.
func Ensure(ctx context.Context, progress io.Writer) (string, error) {
	sum := sha256.Sum256([]byte(suite + packageList + strings.Join(arguments("", ""), " ")))
	artifact, err := binaries.EnsureArtifact(ctx, progress, binaries.Artifact{
		Name:     "Debian's packages for nodes",
		Set:      "debian",
		Hash:     hex.EncodeToString(sum[:])[:12],
		Outputs:  []string{folder},
		Estimate: 80 * time.Second,
		MaxAge:   maxAge,
		Produce:  produce,
	})
	return filepath.Join(artifact, folder), err
}

func produce(ctx context.Context, into string) error {
	mirror, err := mirror("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "unshare", arguments(filepath.Join(into, folder), mirror)...)
	command.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if err := process.Run(ctx, command); err != nil {
		return fmt.Errorf("unpack Debian's packages: %w", err)
	}
	return nil
}

// arguments are those of unshare(1), in whose namespaces mmdebstrap mounts, and with which everything ends that it has started.
func arguments(into, mirror string) []string {
	return []string{
		"--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc",
		"mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(strings.Fields(packageList), ","),
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		suite, into, fmt.Sprintf("deb [signed-by=%s] %s %s main", keyring, mirror, suite),
	}
}

var (
	// uris matches the field of the format deb822, and line the URI in a line of the older format.
	uris = regexp.MustCompile(`(?m)^URIs:\s*(\S+)`)
	line = regexp.MustCompile(`(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)`)
)

// mirror returns the mirror of this machine's first source of packages, which is the nearest one, or Debian's if
// this machine has no such file.
func mirror(sources, list string) (string, error) {
	for file, expression := range map[string]*regexp.Regexp{sources: uris, list: line} {
		data, err := os.ReadFile(filepath.Clean(file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the sources of packages: %w", err)
		}
		if match := expression.FindSubmatch(data); match != nil && strings.Contains(string(match[1]), "debian") {
			return string(match[1]), nil
		}
	}
	return "http://deb.debian.org/debian", nil
}
