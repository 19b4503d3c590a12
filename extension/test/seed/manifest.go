// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
)

// readExample returns a manifest of the documentation.
func readExample(name string) ([]byte, error) {
	return readFile("extension", "example", name)
}

// readFile reads a file of the repository.
func readFile(elements ...string) ([]byte, error) {
	root, err := compile.Root()
	if err != nil {
		return nil, err
	}

	return os.ReadFile(filepath.Join(root, filepath.Join(elements...)))
}

// Manifest returns PlainShoot, or a manifest of the documentation, with the Kubernetes version of the
// API servers.
func (s *Seed) Manifest(name string) ([]byte, error) {
	return readManifest(name, s.KubernetesVersion())
}

func readManifest(name, kubernetesVersion string) ([]byte, error) {
	content, err := manifests.ReadFile("manifests/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = readExample(name)
	}

	return bytes.ReplaceAll(content, []byte(exampleVersion), []byte(kubernetesVersion)), err
}

// Read decodes a Manifest with one object.
func (s *Seed) Read(name string, into any) error {
	content, err := s.Manifest(name)
	if err != nil {
		return err
	}

	return yaml.UnmarshalStrict(content, into)
}

// applyNetworks makes the networks of the namespace default of the provider cluster readable for all shoots, and applies the kind of Multus'
// networks where Multus itself does not run.
func (s *Seed) applyNetworks(ctx context.Context) error {
	names := []string{"multus", "sharednetworks"}
	if s.withRealNodes {
		names = names[1:]
	}

	for _, name := range names {
		objects, err := manifests.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return err
		}

		if err := s.apply(ctx, s.state.ProviderKubeconfig, name, string(objects)); err != nil {
			return err
		}
	}

	return nil
}

// apply applies objects in YAML to a cluster.
func (s *Seed) apply(ctx context.Context, kubeconfig, name, objects string) error {
	file := filepath.Join(s.Folder, name+".yaml")
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		return err
	}

	return run(ctx, io.Discard, s.root, s.state.Kubectl, "apply", "--server-side", "--kubeconfig="+kubeconfig, "--filename="+file)
}

// SharedNetwork creates a network in the namespace default of the provider cluster.
func (s *Seed) SharedNetwork(ctx context.Context, name string) error {
	network := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]any{"namespace": metav1.NamespaceDefault, "name": name},
		"spec":     map[string]any{"config": `{"cniVersion": "0.4.0", "name": "` + name + `", "type": "bridge"}`},
	}}

	return client.IgnoreAlreadyExists(s.Provider.Create(ctx, network))
}
