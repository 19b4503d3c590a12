// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// definition is the image that the Dockerfile defines. It has no base and one layer.
type definition struct {
	// programs are the names of the only files, in their order in the layer.
	programs []string
	// mode is the mode of the programs.
	mode int64

	entrypoint       []string
	user, workingDir string
	// labels are the labels, with the build arguments as in "$VERSION".
	labels map[string]string
}

// readDockerfile reads the Dockerfile of this repository. It knows the instructions that the file
// has, and refuses others: the image would lack them.
func readDockerfile(file string) (definition, error) {
	text, err := os.ReadFile(file) //nolint:gosec // The path is given on the command line.
	if err != nil {
		return definition{}, fmt.Errorf("read the Dockerfile: %w", err)
	}

	return parseDockerfile(string(text))
}

var comment = regexp.MustCompile(`(?m)^\s*#.*\n`)

func parseDockerfile(text string) (definition, error) {
	d := definition{labels: map[string]string{}}

	for line := range strings.Lines(strings.ReplaceAll(comment.ReplaceAllString(text, ""), "\\\n", " ")) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}

		if err := d.apply(name, strings.Join(strings.Fields(arguments), " ")); err != nil {
			return d, fmt.Errorf("%s %s: %w", name, strings.TrimSpace(arguments), err)
		}
	}

	if len(d.programs) == 0 || len(d.entrypoint) == 0 || d.user == "" {
		return d, errors.New("the Dockerfile lacks COPY, ENTRYPOINT or USER")
	}

	return d, nil
}

// apply applies one instruction.
func (d *definition) apply(name, arguments string) (err error) {
	switch name {
	case "ARG":
	case "FROM":
		if arguments != "scratch" {
			err = errors.New("the image has no base")
		}
	case "LABEL":
		err = d.addLabels(arguments)
	case "COPY":
		err = d.copyPrograms(arguments)
	case "WORKDIR":
		d.workingDir = arguments
	case "USER":
		d.user = arguments
	case "ENTRYPOINT":
		err = json.Unmarshal([]byte(arguments), &d.entrypoint) // the form without a shell
	default:
		err = errors.New("this instruction is not supported")
	}

	return err
}

var label = regexp.MustCompile(`(\S+)="([^"]*)"`)

func (d *definition) addLabels(arguments string) error {
	for _, match := range label.FindAllStringSubmatch(arguments, -1) {
		d.labels[match[1]] = match[2]
	}

	if rest := strings.TrimSpace(label.ReplaceAllString(arguments, "")); rest != "" {
		return fmt.Errorf("cannot read %s", rest)
	}

	return nil
}

// copied matches "--chmod=MODE FILE... /".
var copied = regexp.MustCompile(`^--chmod=(0[0-7]+) (.+) /$`)

// folder is the folder of the programs in the Dockerfile.
const folder = "bin/linux-$TARGETARCH"

func (d *definition) copyPrograms(arguments string) (err error) {
	match := copied.FindStringSubmatch(arguments)
	if match == nil || len(d.programs) > 0 {
		return errors.New("one COPY is supported: --chmod=MODE PROGRAM... /")
	}

	if d.mode, err = strconv.ParseInt(match[1], 8, 64); err != nil {
		return err
	}

	for _, file := range strings.Fields(match[2]) {
		if path.Dir(file) != folder {
			return fmt.Errorf("%s is not in %s", file, folder)
		}

		d.programs = append(d.programs, path.Base(file))
	}

	return nil
}

// imageLabels returns the labels with the values of the release. The format of the time is that of
// https://specs.opencontainers.org/image-spec/annotations/.
func (r release) imageLabels() map[string]string {
	arguments := strings.NewReplacer("$VERSION", r.version, "$REVISION", r.revision, "$CREATED", r.created.Format(time.RFC3339))
	labels := map[string]string{}

	for key, value := range r.labels {
		labels[key] = arguments.Replace(value)
	}

	return labels
}
