package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// redacted replaces the user data. Everything else in a machine's Secrets comes from the
// MachineClass, and is shown.
const redacted = "REDACTED"

// renderOptions specify the objects to render. No cluster is involved: the content of the Secrets
// does not matter, and is not read.
type renderOptions struct {
	manifestFlags

	class      string
	machine    string
	uid        string
	deployment string
	workerPool string
	namespace  string
}

func renderCommand() *cobra.Command {
	o := renderOptions{manifestFlags: newManifestFlags(outputYAML)}

	cmd := &cobra.Command{
		Use:   "render -f machineclass.yaml --machine NAME",
		Short: "Print the Secrets, the golden image and the VirtualMachine of a machine, without access to a cluster",
		Long: `Reads a MachineClass and prints the objects that the driver would create for one of its machines: the Secrets, with the user data
redacted, the golden image if the machine is cloned from one, and the VirtualMachine. Other objects in the files are skipped. "-o text"
prints a summary and warnings instead.
` + exitCodes,
		Example: `  mcm-kubevirt render -f machineclass.yaml --machine worker-1
  mcm-kubevirt render -f machineclasses.yaml --class worker-z1 --machine worker-1 -o text`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}

	flags := cmd.Flags()
	o.addTo(flags)
	flags.StringVar(&o.class, "class", "", "Name of the MachineClass; required if the files contain several.")
	flags.StringVar(&o.machine, "machine", "", "Name of the Machine; required, since the names of the objects are derived from it.")
	flags.StringVar(&o.uid, "machine-uid", "00000000-0000-0000-0000-000000000000", "UID of the Machine; set it to print the real names of DataVolumes, which contain a part of it.")
	flags.StringVar(&o.deployment, "machine-deployment", "", "Name of the MachineDeployment; set it to print the default spreading of its machines over hosts.")
	flags.StringVar(&o.workerPool, "worker-pool", "", "Name of the worker pool; set it to the value in the Machine's nodeTemplate to print the labels derived from it.")
	flags.StringVar(&o.namespace, "provider-namespace", metav1.NamespaceDefault, "Namespace of the machines on the provider cluster; set it to that of the driver's kubeconfig.")
	o.complete(cmd)
	completeFlag(cmd, "class", o.completeClasses)

	return cmd
}

func (o *renderOptions) run(in io.Reader, out io.Writer) error {
	if len(o.files) == 0 || o.machine == "" {
		return errors.New("--filename (-f) and --machine are required: mcm-kubevirt render -f machineclass.yaml --machine NAME")
	}

	m, err := readManifests(o.files, in)
	if err != nil {
		return err
	}

	class, err := m.class(o.class)
	if err != nil {
		return err
	}

	input, err := o.input(class)
	if err != nil {
		return err
	}

	vm, err := render.VirtualMachine(input, o.namespace)
	if err != nil {
		return &invalidError{reason: fmt.Sprintf("%s: MachineClass %s: %s", class.file, class.Name, err)}
	}

	result := rendered{input: input, secrets: render.Secrets(input, o.namespace), vm: vm}

	if input.Spec.UsesGoldenImage() {
		if result.image, err = input.Image().DataVolume(o.namespace); err != nil {
			return &invalidError{reason: fmt.Sprintf("%s: MachineClass %s: %s", class.file, class.Name, err)}
		}
	}

	if o.output.value == outputText {
		return summarize(out, class, result)
	}

	return printObjects(out, o.output.value, result.objects())
}

// rendered holds the objects that the driver would create for a machine.
type rendered struct {
	input   *spi.CreateMachineInput
	secrets []*corev1.Secret
	// image is nil for a machine without a golden image.
	image *cdiv1beta1.DataVolume
	vm    *kubevirtv1.VirtualMachine
}

func (r *rendered) objects() []any {
	var objects []any
	for _, s := range r.secrets {
		objects = append(objects, readable(s))
	}

	if r.image != nil {
		objects = append(objects, r.image)
	}

	return append(objects, r.vm)
}

// input returns the input for the driver's renderer. The error lists all errors of the class.
func (o *renderOptions) input(class machineClass) (*spi.CreateMachineInput, error) {
	validated := newClassReport(class)

	_, errs := validation.Decode(class.ProviderSpec.Raw, o.allowed())
	validated.addErrors(errs)

	if len(validated.Errors) > 0 {
		var b strings.Builder

		fmt.Fprintf(&b, "%s:%d: MachineClass %s cannot be rendered\n", class.file, class.line, class.Name)
		printFindings(&b, "error", validated.sorted().Errors)

		return nil, &invalidError{reason: strings.TrimSpace(b.String())}
	}

	input, err := machineclass.DecodeCreateMachine(o.newMachine(), class.MachineClass, placeholderSecret(), o.allowed())
	if err != nil {
		return nil, &invalidError{reason: fmt.Sprintf("%s: MachineClass %s: %s", class.file, class.Name, err)}
	}

	return input, nil
}

// newMachine returns the Machine as machine-controller-manager would create it.
func (o *renderOptions) newMachine() *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: o.machine, UID: types.UID(o.uid)}}
	if o.deployment != "" {
		machine.Labels = map[string]string{"name": o.deployment}
	}

	if o.workerPool != "" {
		machine.Spec.NodeTemplateSpec.Labels = map[string]string{apiv1alpha1.LabelWorkerPool: o.workerPool}
	}

	return machine
}

// placeholderSecret returns a Secret with the required keys.
func placeholderSecret() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		apiv1alpha1.SecretKeyKubeconfig: []byte("not read"),
		apiv1alpha1.SecretKeyUserData:   []byte(redacted),
	}}
}

// class returns the MachineClass with that name, or the only one.
func (m *manifests) class(name string) (machineClass, error) {
	var found []machineClass

	for _, class := range m.classes {
		if name == "" || class.Name == name {
			found = append(found, class)
		}
	}

	switch {
	case len(found) == 1:
		return found[0], nil
	case len(m.classes) == 0:
		return machineClass{}, m.noClass()
	case len(found) == 0:
		return machineClass{}, fmt.Errorf("the files contain no MachineClass %s, but %s", name, m.classNames())
	case name == "":
		return machineClass{}, fmt.Errorf("the files contain several MachineClasses; select one with --class: %s", m.classNames())
	default:
		return machineClass{}, fmt.Errorf("the files contain several MachineClasses %s; pass only one of them with --filename", name)
	}
}

func (m *manifests) classNames() string {
	var all []string
	for _, class := range m.classes {
		all = append(all, class.Name)
	}

	return strings.Join(all, ", ")
}

// readable returns the Secret with its data as text.
func readable(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	s.StringData = map[string]string{}

	for key, value := range s.Data {
		s.StringData[key] = string(value)
	}

	s.Data = nil

	return s
}
