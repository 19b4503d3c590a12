// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
)

// The overlays of the folder kubernetes that make up the lab's provider cluster and a shoot.
const (
	providerClusterOverlay    = "provider-cluster"
	controlOverlay            = "control-namespace"
	targetOverlay             = "target"
	providerOverlay           = "provider-namespace"
	evacuationControlOverlay  = "evacuation/control-namespace"
	evacuationProviderOverlay = "evacuation/provider-namespace"
)

// The namespaces in the shipped manifests. The lab's shoots replace them.
const (
	shippedNamespace         = "shoot--lab--demo"
	shippedProviderNamespace = "shoot-machines"
)

// manifests renders the shipped overlays with kustomize, each of them once.
type manifests struct {
	folder  string
	kubectl string

	mu   sync.Mutex
	made map[string]string
}

func newManifests(folder, kubectl string) (*manifests, error) {
	if err := os.CopyFS(folder, kubernetes.Manifests); err != nil {
		return nil, fmt.Errorf("unpack the shipped manifests: %w", err)
	}
	return &manifests{folder: folder, kubectl: kubectl, made: map[string]string{}}, nil
}

// of returns the objects of an overlay. replace holds old, new pairs of strings to replace in it.
func (m *manifests) of(ctx context.Context, overlay string, replace ...string) ([]unstructured.Unstructured, error) {
	text, err := m.text(ctx, overlay)
	if err != nil {
		return nil, err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.NewReplacer(replace...).Replace(text)), len(text))
	var objects []unstructured.Unstructured
	for {
		o := unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode the shipped %s: %w", overlay, err)
		}
		objects = append(objects, o)
	}
}

func (m *manifests) text(ctx context.Context, overlay string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if made, ok := m.made[overlay]; ok {
		return made, nil
	}
	var output, complaints bytes.Buffer
	command := exec.CommandContext(ctx, m.kubectl, "kustomize", filepath.Join(m.folder, overlay))
	command.Stdout = &output
	command.Stderr = &complaints
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("kustomize the shipped %s: %w: %s", overlay, err, complaints.String())
	}
	m.made[overlay] = output.String()
	return output.String(), nil
}

// applyShipped applies a shipped overlay to a cluster.
func (l *Lab) applyShipped(ctx context.Context, cluster *controlplane.Cluster, overlay string, replace ...string) error {
	objects, err := l.manifests.of(ctx, overlay, replace...)
	if err != nil {
		return err
	}
	return cluster.Apply(ctx, objects)
}

// awaitRight waits until the API server's authorizer allows an account of a namespace a permission.
// A new binding takes effect with a small delay.
func awaitRight(ctx context.Context, cluster *controlplane.Cluster, namespace, account string, right authorizationv1.ResourceAttributes) error {
	client, err := authorizationclient.NewForConfig(cluster.Config())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	user := "system:serviceaccount:" + namespace + ":" + account
	const every, atMost = 20 * time.Millisecond, 5 * time.Minute
	err = wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
		reviewed, err := client.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && reviewed.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s may %s %s: %w", user, right.Verb, right.Resource, err)
	}
	return nil
}
