// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/admission/validator"
)

func renderCommand() *cobra.Command {
	var files []string

	cmd := &cobra.Command{
		Use:   "render -f FILE…",
		Short: "Print the MachineClasses of Shoots in manifests, for mcm-kubevirt preflight.",
		Long: `Validates each Shoot in the files with its CloudProfile as the webhook does, and prints the MachineClasses of its pools. Pipe them to
"mcm-kubevirt preflight" to check whether the provider cluster can run the machines, before the Shoot is applied. No cluster is contacted. The
files must contain the Shoot's CloudProfile or NamespacedCloudProfile, and its CredentialsBinding; other kinds, such as Secrets, are ignored.`,
		Example: `  gardener-extension-admission-kubevirt render -f cloudprofile.yaml -f credentialsbinding.yaml -f shoot.yaml |
    mcm-kubevirt preflight -f - -f secret.yaml --provider-kubeconfig=admin.yaml`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := &manifests{}
			if err := m.read(files, cmd.InOrStdin()); err != nil {
				return err
			}

			return m.render(cmd.Context(), cmd.OutOrStdout())
		},
	}

	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, `File with manifests in YAML or JSON, or "-" for standard input. May be repeated.`)

	return cmd
}

// manifests are the objects of the garden in files. They are the garden of the validation.
type manifests struct {
	objects []client.Object
}

var _ client.Reader = (*manifests)(nil)

// Get implements client.Reader.
func (m *manifests) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, object := range m.objects {
		if client.ObjectKeyFromObject(object) == key && reflect.TypeOf(object) == reflect.TypeOf(into) {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())

			return nil
		}
	}

	return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).Elem().Name()}, key.String()+" (add its manifest to the files)")
}

// List implements client.Reader. The validation of new objects lists nothing.
func (*manifests) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("manifests in files cannot be listed")
}

// read adds the objects of files.
func (m *manifests) read(files []string, in io.Reader) error {
	for _, name := range files {
		if name == "-" {
			if err := m.add(name, in); err != nil {
				return err
			}

			continue
		}

		file, err := os.Open(filepath.Clean(name))
		if err != nil {
			return fmt.Errorf("read --filename: %w", err)
		}

		if err := errors.Join(m.add(name, file), file.Close()); err != nil {
			return err
		}
	}

	return nil
}

// add adds the objects of a file with the defaults of gardener-apiserver. It ignores kinds of other APIs.
func (m *manifests) add(name string, content io.Reader) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(gardencorev1beta1.AddToScheme(scheme), securityv1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}

	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	for documents := utilyaml.NewYAMLReader(bufio.NewReader(content)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}

		object, _, err := decoder.Decode(document, nil, nil)

		switch {
		case runtime.IsNotRegisteredError(err), runtime.IsMissingKind(err): // The latter is a document of comments.
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}

		scheme.Default(object)

		if found, ok := object.(client.Object); ok {
			m.objects = append(m.objects, found)
		}
	}
}

// render prints the MachineClasses of all Shoots.
func (m *manifests) render(ctx context.Context, out io.Writer) error {
	shoots := 0

	for _, object := range m.objects {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		if !ok {
			continue
		}

		shoots++

		rendered, err := validator.MachineClasses(ctx, m, shoot)
		if err != nil {
			return fmt.Errorf("render Shoot %s/%s: %w", shoot.Namespace, shoot.Name, err)
		}

		for _, one := range rendered {
			if err := printDocument(out, one); err != nil {
				return err
			}
		}
	}

	if shoots == 0 {
		return errors.New("the files contain no Shoot; specify them with --filename (-f)")
	}

	return nil
}

func printDocument(out io.Writer, object client.Object) error {
	text, err := yaml.Marshal(object)
	if err == nil {
		_, err = fmt.Fprintf(out, "---\n%s", text)
	}

	if err != nil {
		return fmt.Errorf("print %s: %w", object.GetName(), err)
	}

	return nil
}
