package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// machineSource is the source of Machines, their MachineClasses and Secrets.
type machineSource struct {
	// control is nil if no control cluster is used; then class is the class of all machines.
	control *controlCluster
	class   *v1alpha1.MachineClass
	// provider is a kubeconfig that replaces those in the Secrets; nil to use those.
	provider []byte

	// known holds the states of the controllers, by namespace.
	known map[string][]controllerState
}

// controllers returns the state of the controllers in the namespace. It
// is read once, also for several machines.
func (s *machineSource) controllers(ctx context.Context) []controllerState {
	states, known := s.known[s.control.Namespace]
	if !known {
		states = s.control.controllers(ctx)
		s.known[s.control.Namespace] = states
	}

	return states
}

// foundMachine is a Machine, or a substitute for a missing one.
type foundMachine struct {
	namespace string
	// machine is nil if there is none in the control cluster, or no control cluster is used.
	machine *v1alpha1.Machine
	// requests are the requests that would be sent to the driver. Without a Machine, there is one
	// for each class that it may have had.
	requests []kubevirt.ExplainRequest
	// unread lists the MachineClasses whose Secrets could not be read, and why.
	unread []string

	// class is the class of the Machine; nil without a Machine, or if classMissing.
	class        *v1alpha1.MachineClass
	classMissing bool
	secrets      classSecrets
	// overridden reports whether a kubeconfig other than the one in the Secrets is used.
	overridden bool
}

// classOf returns a class that contains only the tags of its machines.
func classOf(cluster, role string) (*v1alpha1.MachineClass, error) {
	spec, err := json.Marshal(map[string]map[string]string{"tags": {apiv1alpha1.TagCluster: cluster, apiv1alpha1.TagRole: role}})
	if err != nil {
		return nil, fmt.Errorf("write the tags: %w", err)
	}

	return &v1alpha1.MachineClass{ProviderSpec: runtime.RawExtension{Raw: spec}}, nil
}

func (s *machineSource) find(ctx context.Context, name string) (*foundMachine, error) {
	if s.control == nil {
		return &foundMachine{requests: []kubevirt.ExplainRequest{s.request(nameOnly(name), s.class, nil)}}, nil
	}

	namespace := s.control.Namespace

	machine, err := s.control.Machines.MachineV1alpha1().Machines(namespace).Get(ctx, name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		return s.findClasses(ctx, name)
	case err != nil:
		return nil, fmt.Errorf("get Machine %s/%s: %w", namespace, name, err)
	}

	return s.findMachine(ctx, machine)
}

// findMachine reads the objects that a Machine refers to. A missing object is a cause; an
// unreadable one is an error.
func (s *machineSource) findMachine(ctx context.Context, machine *v1alpha1.Machine) (*foundMachine, error) {
	found := &foundMachine{namespace: s.control.Namespace, machine: machine, overridden: s.provider != nil}

	class, err := s.control.Machines.MachineV1alpha1().MachineClasses(s.control.Namespace).Get(ctx, machine.Spec.Class.Name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		found.classMissing = true

		return found, nil
	case err != nil:
		return nil, fmt.Errorf("get MachineClass %s/%s of the Machine: %w", s.control.Namespace, machine.Spec.Class.Name, err)
	}

	found.class, found.secrets = class, s.control.secretsOf(ctx, class)

	if err := found.secrets.unread(class.Name); err != nil && !found.overridden {
		return nil, err
	}

	if found.secretCause() != nil && !found.overridden {
		return found, nil // The driver could not read the provider cluster either.
	}

	requested := machine
	if found.overridden { // These credentials may have fewer permissions than the driver's.
		requested = nameOnly(machine.Name)
		requested.Spec.ProviderID, requested.DeletionTimestamp = machine.Spec.ProviderID, machine.DeletionTimestamp
	}

	found.requests = []kubevirt.ExplainRequest{s.request(requested, class, found.secrets.data)}

	return found, nil
}

// findClasses returns the MachineClasses that a deleted Machine may have had: one for each
// combination of tags and kubeconfig.
func (s *machineSource) findClasses(ctx context.Context, name string) (*foundMachine, error) {
	list, err := s.control.Machines.MachineV1alpha1().MachineClasses(s.control.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineClasses in %s: %w", s.control.Namespace, err)
	}

	found := &foundMachine{namespace: s.control.Namespace}

	for i := range list.Items {
		class := &list.Items[i]

		data, err := s.secretData(ctx, class)
		if err != nil {
			found.unread = append(found.unread, err.Error())

			continue
		}

		if request := s.request(nameOnly(name), class, data); !found.has(&request) {
			found.requests = append(found.requests, request)
		}
	}

	if len(found.requests) == 0 {
		return nil, fmt.Errorf("the Machine %s/%s does not exist, and no MachineClass refers to a provider cluster to search%s; "+
			"set --provider-kubeconfig and --cluster", s.control.Namespace, name, notRead(found.unread))
	}

	return found, nil
}

func (f *foundMachine) has(request *kubevirt.ExplainRequest) bool {
	for i := range f.requests {
		if sameAddress(&f.requests[i], request) {
			return true
		}
	}

	return false
}

func sameAddress(a, b *kubevirt.ExplainRequest) bool {
	tagsA, tagsB := apiv1alpha1.DecodeTags(a.MachineClass.ProviderSpec.Raw), apiv1alpha1.DecodeTags(b.MachineClass.ProviderSpec.Raw)

	return tagsA[apiv1alpha1.TagCluster] == tagsB[apiv1alpha1.TagCluster] && tagsA[apiv1alpha1.TagRole] == tagsB[apiv1alpha1.TagRole] &&
		bytes.Equal(a.Secret.Data[apiv1alpha1.SecretKeyKubeconfig], b.Secret.Data[apiv1alpha1.SecretKeyKubeconfig])
}

// secretData reads the Secrets of a class, unless they are not needed.
func (s *machineSource) secretData(ctx context.Context, class *v1alpha1.MachineClass) (map[string][]byte, error) {
	if s.provider != nil {
		return map[string][]byte{}, nil
	}

	return s.control.secretData(ctx, class)
}

func (s *machineSource) request(machine *v1alpha1.Machine, class *v1alpha1.MachineClass, data map[string][]byte) kubevirt.ExplainRequest {
	if s.provider != nil {
		data = map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: s.provider}
	}

	return kubevirt.ExplainRequest{Machine: machine, MachineClass: class, Secret: &corev1.Secret{Data: data}}
}

// nameOnly returns a Machine of which only the name is known.
func nameOnly(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
