package main

import (
	"context"
	"fmt"
	"io"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

// subjects returns the classes of the files, or of the control cluster.
func (o *preflightOptions) subjects(ctx context.Context, in io.Reader, admin bool) ([]subject, []fileError, error) {
	if len(o.files) > 0 {
		return o.subjectsOfFiles(ctx, in, admin)
	}

	control, err := o.control()
	if err != nil {
		return nil, nil, err
	}

	subjects, err := control.subjects(ctx)

	return subjects, nil, err
}

func (o *preflightOptions) subjectsOfFiles(ctx context.Context, in io.Reader, admin bool) ([]subject, []fileError, error) {
	m, err := readManifests(o.files, in)
	if err != nil {
		return nil, nil, err
	}

	if len(m.classes) == 0 && len(m.unreadable) == 0 {
		return nil, nil, m.noClass()
	}

	subjects := make([]subject, 0, len(m.classes))

	for _, class := range m.classes {
		s := subject{class: class}

		data := secretsOf(class, m.secrets)
		s.data, s.from = data.values, data.from[apiv1alpha1.SecretKeyKubeconfig].name

		// A user with another kubeconfig may have no access to the control cluster.
		if s.from == "" && (!admin || o.kubeconfig != "") {
			if err := o.complete(ctx, &s); err != nil {
				return nil, nil, err
			}
		}

		subjects = append(subjects, s)
	}

	return subjects, m.unreadable, nil
}

// complete reads the Secrets of a class from the control cluster.
func (o *preflightOptions) complete(ctx context.Context, s *subject) error {
	control, err := o.control()
	if err == nil {
		err = control.complete(ctx, s)
	}

	if err != nil {
		return fmt.Errorf("find the kubeconfig of the provider cluster: %w; add the Secret of MachineClass %s to the files, or set "+
			"--provider-kubeconfig", err, s.class.Name)
	}

	return nil
}

func (c *controlCluster) complete(ctx context.Context, s *subject) (err error) {
	s.data, err = c.secretData(ctx, s.class.MachineClass)
	s.from = kubeconfigSecret(s.class.MachineClass)

	return err
}

// kubeconfigSecret returns the Secret that usually contains the kubeconfig.
func kubeconfigSecret(class *v1alpha1.MachineClass) string {
	ref := class.CredentialsSecretRef
	if ref == nil {
		ref = class.SecretRef
	}

	if ref == nil {
		return ""
	}

	return "Secret " + ref.Namespace + "/" + ref.Name
}

// subjects returns the driver's classes in the namespace. A class
// whose Secrets cannot be read is unusable.
func (c *controlCluster) subjects(ctx context.Context) ([]subject, error) {
	client := c.Machines.MachineV1alpha1()

	list, err := client.MachineClasses(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineClasses in %s: %w", c.where(), err)
	}

	wanted, err := c.wanted(ctx)
	if err != nil {
		return nil, err
	}

	var subjects []subject

	for i := range list.Items {
		class := &list.Items[i]
		if !machineclass.IsOurs(class) || class.DeletionTimestamp != nil {
			continue
		}

		s := subject{
			class: machineClass{MachineClass: class}, anyNamespace: c.Namespace == metav1.NamespaceAll,
			wanted: ptr.To(max(0, wanted[types.NamespacedName{Namespace: class.Namespace, Name: class.Name}])),
		}
		if err := c.complete(ctx, &s); err != nil {
			s.unusable = err.Error()
		}

		subjects = append(subjects, s)
	}

	if len(subjects) == 0 {
		return nil, fmt.Errorf("no MachineClass of provider %s in %s; select another namespace with --namespace (-n), "+
			"or files with --filename (-f)", machineclass.Provider, c.where())
	}

	return subjects, nil
}

// wanted returns the number of machines that are still to be created, by class.
func (c *controlCluster) wanted(ctx context.Context) (map[types.NamespacedName]int, error) {
	client := c.Machines.MachineV1alpha1()

	deployments, err := client.MachineDeployments(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineDeployments in %s: %w", c.where(), err)
	}

	machines, err := client.Machines(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Machines in %s: %w", c.where(), err)
	}

	wanted := map[types.NamespacedName]int{}

	for i := range deployments.Items {
		d := &deployments.Items[i]
		wanted[types.NamespacedName{Namespace: d.Namespace, Name: d.Spec.Template.Spec.Class.Name}] += int(d.Spec.Replicas)
	}

	for i := range machines.Items {
		m := &machines.Items[i]
		wanted[types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.Class.Name}]--
	}

	return wanted, nil
}
