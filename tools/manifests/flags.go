// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// AssumedFlags are the flags of the machine controller that a command assumes: they are known only
// from its command line.
type AssumedFlags struct {
	Options validation.Options
}

// AddTo adds the flags to a command.
func (f *AssumedFlags) AddTo(cmd *cobra.Command) {
	policies := make([]string, len(validation.TemplatePolicies))
	for i, policy := range validation.TemplatePolicies {
		policies[i] = string(policy)
	}

	cmd.Flags().StringVar((*string)(&f.Options.Template), "virtual-machine-template", string(validation.TemplateSafe),
		"Allowed content of virtualMachineTemplate in a providerSpec: none, safe or all; set it to the value of the machine controller's flag.")
	output.CompleteFlag(cmd, "virtual-machine-template", cobra.FixedCompletions(policies, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&f.Options.Evacuation, "evacuation", false,
		"Set it if the machine controller runs with --evacuation: machines then have evictionStrategy External, unless their class sets another one.")
}

// Validate refuses an unknown policy.
func (f *AssumedFlags) Validate() error {
	if !slices.Contains(validation.TemplatePolicies, f.Options.Template) {
		return errors.New("--virtual-machine-template must be one of none, safe, all; --help lists the flags")
	}

	return nil
}

// List returns the flags as written on a command line.
func (f *AssumedFlags) List() []string {
	return []string{fmt.Sprintf("--evacuation=%t", f.Options.Evacuation), "--virtual-machine-template=" + string(f.Options.Template)}
}

// FileFlags are kubectl's flags for files with manifests.
type FileFlags struct {
	// Names are files, folders, and "-" for standard input.
	Names []string
	// Kustomize is a folder with a kustomization; it excludes Names.
	Kustomize string
	// Recursive includes the files in folders of folders.
	Recursive bool
}

// AddFlags adds the flags to those of a command.
func (f *FileFlags) AddFlags(flags *pflag.FlagSet) {
	standard := genericclioptions.FileNameFlags{Kustomize: &f.Kustomize, Recursive: &f.Recursive}
	standard.AddFlags(flags)

	// Unlike kubectl's flag, it accepts names with a comma.
	flags.StringArrayVarP(&f.Names, "filename", "f", nil,
		`File with manifests in YAML or JSON, folder with such files (*.yaml, *.yml, *.json), or "-" for standard input. May be repeated.`)

	if err := cobra.MarkFlagFilename(flags, "filename", "json", "yaml", "yml"); err != nil {
		panic(err) // The flag exists.
	}
}

// Given reports whether there are files.
func (f *FileFlags) Given() bool { return len(f.Names) > 0 || f.Kustomize != "" }

// Validate refuses flags that exclude each other.
func (f *FileFlags) Validate() error {
	if f.Kustomize != "" && (len(f.Names) > 0 || f.Recursive) {
		return errors.New("--kustomize (-k) cannot be combined with --filename (-f) and --recursive (-R); remove one")
	}

	return nil
}

// list returns the manifests of a folder, or the file itself.
func (f *FileFlags) list(name string) ([]string, error) {
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return []string{name}, err
	}

	var files []string

	folder := name + string(filepath.Separator) // The name may be a symbolic link.

	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && !f.Recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains(resource.FileExtensions, filepath.Ext(path)):
			files = append(files, path)
		}

		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("folder %s has no files *.yaml, *.yml or *.json", name)
	}

	return files, err
}

// NoArguments rejects arguments and explains them: a shell passes all files
// of "-f *.yaml" but the first as arguments.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	return fmt.Errorf("unexpected argument %q; write -f before each file, or once before their folder", args[0])
}
