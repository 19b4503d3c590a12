package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkFiles requires the programs and no other files.
func checkFiles(ctx context.Context, found platform, want release) error {
	var (
		names []string
		errs  []error
	)

	for _, f := range found.files {
		names = append(names, f.header.Name)

		if !slices.Contains(want.programs, f.header.Name) {
			continue
		}

		if err := checkProgram(ctx, f, found.architecture, want); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.header.Name, err))
		}
	}

	return errors.Join(append(errs, same("files", names, want.programs, slices.Equal))...)
}

func checkProgram(ctx context.Context, f file, architecture string, want release) error {
	err := errors.Join(
		checkHeader(f.header, want),
		checkLinkage(f.data, architecture),
		checkBuild(f, architecture),
		checkVersion(f.data, want),
	)
	if err != nil || !runsHere(architecture) {
		return err
	}

	return checkRun(ctx, f, want)
}

func checkHeader(header *tar.Header, want release) error {
	return errors.Join(
		same("type", string(header.Typeflag), string(tar.TypeReg), equal),
		same("mode", strconv.FormatInt(header.Mode, 8), strconv.FormatInt(want.mode, 8), equal),
		same("owner", fmt.Sprintf("%d:%d", header.Uid, header.Gid), "0:0", equal),
		same("time", header.ModTime.UTC().String(), want.created.UTC().String(), equal),
	)
}

// checkLinkage requires a program for the architecture that needs no other files:
// the base has no loader and no libraries.
func checkLinkage(program []byte, architecture string) error {
	read, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("not an ELF file: %w", err)
	}

	errs := []error{same("machine", read.Machine.String(), machines[architecture].String(), equal)}

	for _, header := range read.Progs {
		if header.Type == elf.PT_INTERP || header.Type == elf.PT_DYNAMIC {
			errs = append(errs, fmt.Errorf("not statically linked: it has a %s", header.Type))
		}
	}

	return errors.Join(errs...)
}

// checkBuild checks the build information that the go command embedded in the program.
func checkBuild(f file, architecture string) error {
	info, err := buildinfo.Read(bytes.NewReader(f.data))
	if err != nil {
		return fmt.Errorf("read how it was built: %w", err)
	}

	want := map[string]string{"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": architecture, "-trimpath": "true"}

	var errs []error

	if !strings.HasSuffix(info.Path, "/cmd/"+f.header.Name) {
		errs = append(errs, fmt.Errorf("it is another program: %s", info.Path))
	}

	for _, setting := range info.Settings {
		if value, ok := want[setting.Key]; ok && value == setting.Value {
			delete(want, setting.Key)
		}
	}

	for key, value := range want {
		errs = append(errs, fmt.Errorf("it was not built with %s=%s", key, value))
	}

	return errors.Join(errs...)
}

// checkVersion searches the program for the values set by the linker, since a program for another
// architecture cannot be run.
func checkVersion(program []byte, want release) error {
	for _, text := range []string{want.version, want.revision} {
		if !bytes.Contains(program, []byte(text)) {
			return fmt.Errorf("it does not contain %s: it was built from another version or commit", text)
		}
	}

	return nil
}

func runsHere(architecture string) bool {
	return runtime.GOOS == "linux" && runtime.GOARCH == architecture
}

// checkRun runs the program from the image, in an empty folder and without an environment.
func checkRun(ctx context.Context, f file, want release) (err error) {
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return fmt.Errorf("create a folder to run it in: %w", err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	program := filepath.Join(folder, "program")
	if err := os.WriteFile(program, f.data, 0o500); err != nil { //nolint:gosec // A program must be executable.
		return fmt.Errorf("extract it: %w", err)
	}

	command := exec.CommandContext(ctx, program, "--version") //nolint:gosec // The program was just built.
	command.Dir = folder
	command.Env = []string{}

	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run it with --version: %w: %s", err, output)
	}

	if !strings.Contains(string(output), want.version) || !strings.Contains(string(output), want.revision) {
		return fmt.Errorf("--version must print %s and %s, but prints: %s", want.version, want.revision, output)
	}

	return nil
}
