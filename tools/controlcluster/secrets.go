// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlcluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// State is whether machine-controller-manager can read a Secret. It
// watches only the namespace of the MachineClass.
type State string

// The states of a Secret.
const (
	SecretFound     State = "Found"
	SecretMissing   State = "Missing"
	SecretElsewhere State = "OtherNamespace"
	SecretNotRead   State = "NotRead"
)

// Secret is a Secret that a MachineClass refers to. Only the names of the keys that the driver reads are shown, never
// their values.
type Secret struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Keys are the driver's keys in the Secret.
	Keys []string `json:"keys,omitempty"`
	// Err is why the Secret was not read.
	Err error `json:"-"`
	// Data is its content.
	Data map[string][]byte `json:"-"`
}

// Path returns the namespace and the name.
func (s *Secret) Path() string { return s.Namespace + "/" + s.Name }

// ClassSecrets are the Secrets of a class, and the data that
// machine-controller-manager passes to the driver.
type ClassSecrets struct {
	States []Secret
	Data   map[string][]byte
}

// SecretRefs returns the references of a class to its Secrets. If they have the same key,
// machine-controller-manager takes its value from the last one.
func SecretRefs(class *v1alpha1.MachineClass) []*corev1.SecretReference {
	return slices.DeleteFunc([]*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef},
		func(ref *corev1.SecretReference) bool { return ref == nil })
}

// SecretsOf reads the Secrets of a class in a namespace, or in all namespaces if it is empty. Like
// machine-controller-manager, it ignores the data of all other Secrets.
func (c *Cluster) SecretsOf(ctx context.Context, class *v1alpha1.MachineClass, namespace string) ClassSecrets {
	found := ClassSecrets{Data: map[string][]byte{}}

	for _, ref := range SecretRefs(class) {
		s := Secret{Namespace: ref.Namespace, Name: ref.Name, State: SecretElsewhere}
		if namespace == metav1.NamespaceAll || namespace == ref.Namespace {
			s = c.Secret(ctx, ref.Namespace, ref.Name)
		}

		maps.Copy(found.Data, s.Data)
		found.States = append(found.States, s)
	}

	return found
}

// Secret reads a Secret.
func (c *Cluster) Secret(ctx context.Context, namespace, name string) Secret {
	s := Secret{Namespace: namespace, Name: name, State: SecretFound}

	switch secret, err := c.Kubernetes.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		s.State = SecretMissing
		s.Err = err
	case err != nil:
		s.State = SecretNotRead
		s.Err = err
	default:
		s.Data = secret.Data
	}

	for _, key := range []string{apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData} {
		if len(s.Data[key]) > 0 {
			s.Keys = append(s.Keys, key)
		}
	}

	return s
}

// SecretData returns the data of a class's Secrets in any namespace, or why one was not read.
func (c *Cluster) SecretData(ctx context.Context, class *v1alpha1.MachineClass) (map[string][]byte, error) {
	found := c.SecretsOf(ctx, class, metav1.NamespaceAll)

	return found.Data, found.Err(class, SecretMissing, SecretNotRead)
}

// Err returns the error of a Secret in one of the states; nil if there is none.
func (s *ClassSecrets) Err(class *v1alpha1.MachineClass, states ...State) error {
	for _, found := range s.States {
		if slices.Contains(states, found.State) {
			return fmt.Errorf("get Secret %s of MachineClass %s: %w", found.Path(), class.Name, found.Err)
		}
	}

	return nil
}
