package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// visibility is whether machine-controller-manager can read a Secret. It
// watches only the namespace of the MachineClass.
type visibility string

const (
	secretFound     visibility = "Found"
	secretMissing   visibility = "Missing"
	secretElsewhere visibility = "OtherNamespace"
	secretNotRead   visibility = "NotRead"
)

// secretState is a Secret that a MachineClass refers to. Of its content, only
// the names of the driver's keys are shown.
type secretState struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	State     visibility `json:"state"`
	// Keys are the driver's keys in the Secret.
	Keys []string `json:"keys,omitempty"`

	err error
}

func (s *secretState) path() string { return s.Namespace + "/" + s.Name }

// text describes the Secret for people.
func (s *secretState) text(namespace string) string {
	switch s.State {
	case secretFound:
		if len(s.Keys) == 0 {
			return s.path() + ": found, but none of the driver's keys is in it"
		}

		return s.path() + ": found, keys " + strings.Join(s.Keys, ", ")
	case secretElsewhere:
		return s.path() + ": NOT VISIBLE to machine-controller-manager, which reads Secrets only in namespace " + namespace
	case secretNotRead:
		return s.path() + ": not read: " + statustext.Printable(s.err.Error())
	default:
		return s.path() + ": NOT FOUND"
	}
}

// classSecrets are the Secrets of a class, and the data that
// machine-controller-manager passes to the driver.
type classSecrets struct {
	states []secretState
	data   map[string][]byte
}

// secretsOf reads the Secrets of a class as machine-controller-manager does: a
// Secret that it cannot read has no data.
func (c *controlCluster) secretsOf(ctx context.Context, class *v1alpha1.MachineClass) classSecrets {
	found := classSecrets{data: map[string][]byte{}}

	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if ref == nil {
			continue
		}

		state, data := c.secretOf(ctx, ref)
		found.states = append(found.states, state)
		maps.Copy(found.data, data)
	}

	return found
}

func (c *controlCluster) secretOf(ctx context.Context, ref *corev1.SecretReference) (secretState, map[string][]byte) {
	s := secretState{Namespace: ref.Namespace, Name: ref.Name}

	if ref.Namespace != c.Namespace {
		s.State = secretElsewhere

		return s, nil
	}

	secret, err := c.Kubernetes.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		s.State = secretMissing

		return s, nil
	case err != nil:
		s.State, s.err = secretNotRead, err

		return s, nil
	}

	s.State = secretFound

	for _, key := range []string{apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData} {
		if len(secret.Data[key]) > 0 {
			s.Keys = append(s.Keys, key)
		}
	}

	return s, secret.Data
}

// unread returns why a Secret could not be read; nil if all could.
func (s *classSecrets) unread(class string) error {
	for i := range s.states {
		if s.states[i].err != nil {
			return fmt.Errorf("get Secret %s of MachineClass %s: %w", s.states[i].path(), class, s.states[i].err)
		}
	}

	return nil
}

// shown returns the Secrets for the output, never nil.
func (s *classSecrets) shown() []secretState {
	return append([]secretState{}, s.states...)
}

// lacking returns the keys that the driver lacks, and the Secrets that machine-controller-manager
// cannot read. It returns nothing if no key is missing.
func (s *classSecrets) lacking(keys []string) (invisible []secretState, missing []string) {
	for _, key := range keys {
		if len(s.data[key]) == 0 {
			missing = append(missing, key)
		}
	}

	if len(missing) == 0 {
		return nil, nil
	}

	return slices.DeleteFunc(slices.Clone(s.states), func(state secretState) bool {
		return state.State != secretMissing && state.State != secretElsewhere
	}), missing
}
