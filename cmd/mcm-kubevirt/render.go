package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

const (
	// redacted replaces the user data. Everything else in a machine's Secrets comes from the
	// MachineClass, and is shown.
	redacted = "REDACTED"
	// noUID is a UID that no Machine has.
	noUID = "00000000-0000-0000-0000-000000000000"
)

// renderOptions specify the objects to render. No cluster is involved: the content of the Secrets
// does not matter, and is not read.
type renderOptions struct {
	files     []string
	assumed   assumedFlags
	output    *string
	class     string
	machine   string
	namespace string
}

func renderCommand() *cobra.Command {
	o := &renderOptions{}

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

	addFilenameFlag(cmd, &o.files)
	o.assumed.addTo(cmd)
	o.output = addOutputFlag(cmd, outputYAML)

	flags := cmd.Flags()
	flags.StringVar(&o.class, "class", "", "Name of the MachineClass; required if the files contain several.")
	flags.StringVar(&o.machine, "machine", "", "Name of the Machine; required, since the names of the objects are derived from it.")
	flags.StringVar(&o.namespace, "provider-namespace", metav1.NamespaceDefault,
		"Namespace of the machines on the provider cluster; set it to that of the driver's kubeconfig to apply the objects there.")
	completeFlag(cmd, "class", completing(o.classes))

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

	result, err := o.render(class)
	if err != nil {
		return invalidError(fmt.Sprintf("%s:%d: MachineClass %s: %s", class.report.File, class.report.Line, class.Name, err))
	}

	if *o.output == outputText {
		return result.summarize(out, class)
	}

	return printObjects(out, *o.output, result.objects())
}

// rendered holds the objects that the driver would create for a machine.
type rendered struct {
	input   *spi.CreateMachineInput
	secrets []*corev1.Secret
	// image is nil for a machine without a golden image.
	image *cdiv1beta1.DataVolume
	vm    *kubevirtv1.VirtualMachine
}

func (o *renderOptions) render(class machineClass) (*rendered, error) {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: o.machine, UID: noUID}}

	input, err := class.sample(machine, map[string][]byte{
		apiv1alpha1.SecretKeyKubeconfig: []byte("not read"), apiv1alpha1.SecretKeyUserData: []byte(redacted),
	}, o.assumed.allowed())
	if err != nil {
		return nil, err
	}

	result := &rendered{input: input, secrets: render.Secrets(input, o.namespace)}

	if result.vm, err = render.VirtualMachine(input, o.namespace); err != nil {
		return nil, err
	}

	if input.Spec.UsesGoldenImage() {
		result.image, err = input.Image().DataVolume(o.namespace)
	}

	return result, err
}

// objects returns the objects to print. The Secrets have their data as text.
func (r *rendered) objects() []any {
	var objects []any

	for _, secret := range r.secrets {
		readable := secret.DeepCopy()
		readable.Data, readable.StringData = nil, map[string]string{}

		for key, value := range secret.Data {
			readable.StringData[key] = string(value)
		}

		objects = append(objects, readable)
	}

	if r.image != nil {
		objects = append(objects, r.image)
	}

	return append(objects, r.vm)
}

// class returns the MachineClass with that name, or the only one.
func (m *manifests) class(name string) (machineClass, error) {
	found := slices.DeleteFunc(slices.Clone(m.classes), func(class machineClass) bool { return name != "" && class.Name != name })
	all := strings.Join(m.classNames(), ", ")

	switch {
	case len(found) == 1:
		return found[0], nil
	case len(m.classes) == 0:
		return machineClass{}, m.noClass()
	case len(found) == 0:
		return machineClass{}, fmt.Errorf("the files contain no MachineClass %s, but %s", name, all)
	case name == "":
		return machineClass{}, fmt.Errorf("the files contain several MachineClasses; select one with --class: %s", all)
	default:
		return machineClass{}, fmt.Errorf("the files contain several MachineClasses %s; pass only one of them with --filename", name)
	}
}

// summarize prints a summary of a machine for people.
func (r *rendered) summarize(out io.Writer, class machineClass) error {
	vm, vmi := r.vm, &r.vm.Spec.Template.Spec
	fmt.Fprintf(out, "VirtualMachine %s/%s of MachineClass %s\n", vm.Namespace, vm.Name, class.Name)

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows(table, "region", r.input.Spec.Region)
	rows(table, "zone", r.input.Spec.Zone)
	rows(table, "instancetype", fields(vm.Spec.Instancetype))
	rows(table, "cpu", fields(vmi.Domain.CPU))
	rows(table, "memory", fields(vmi.Domain.Memory))
	rows(table, "requests", fields(vmi.Domain.Resources.Requests))
	rows(table, "limits", fields(vmi.Domain.Resources.Limits))
	rows(table, "architecture", vmi.Architecture)
	rows(table, "run strategy", string(ptr.Deref(vm.Spec.RunStrategy, "")))
	rows(table, "eviction strategy", string(ptr.Deref(vmi.EvictionStrategy, "")))
	rows(table, "volumes", volumes(vm)...)

	if r.image != nil {
		rows(table, "golden image", dataVolume(r.image.Name, &r.image.Spec))
	}

	rows(table, "networks", networks(vmi)...)
	rows(table, "secrets", secretKeys(r.secrets)...)
	rows(table, "labels", strings.Split(labels.Set(vm.Labels).String(), ",")...)

	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	warnings := classReport{}
	warnings.addSpecWarnings(class, r.input.Spec)

	for _, f := range warnings.sorted().Warnings {
		fmt.Fprintln(out, "  warning ", f)
	}

	return nil
}

// rows prints values below each other; nothing if there are none.
func rows(table io.Writer, name string, values ...string) {
	for _, value := range values {
		if value != "" {
			fmt.Fprintf(table, "  %s\t%s\n", name, value)
			name = ""
		}
	}
}

// volumes describes the sources of the volumes.
func volumes(vm *kubevirtv1.VirtualMachine) []string {
	templates := map[string]*cdiv1beta1.DataVolumeSpec{}
	for i := range vm.Spec.DataVolumeTemplates {
		templates[vm.Spec.DataVolumeTemplates[i].Name] = &vm.Spec.DataVolumeTemplates[i].Spec
	}

	var lines []string

	for _, v := range vm.Spec.Template.Spec.Volumes {
		source := fields(v.VolumeSource)
		if v.DataVolume != nil && templates[v.DataVolume.Name] != nil {
			source = dataVolume(v.DataVolume.Name, templates[v.DataVolume.Name])
		}

		lines = append(lines, v.Name+": "+source)
	}

	return lines
}

func dataVolume(name string, spec *cdiv1beta1.DataVolumeSpec) string {
	size := "size of its source"
	if quantity := (&apiv1alpha1.DataVolume{DataVolumeSpec: *spec}).Size(); quantity != nil {
		size = quantity.String()
	}

	return fmt.Sprintf("%s, from %s, DataVolume %s", size, cmp.Or(fields(spec.SourceRef), fields(spec.Source)), name)
}

// networks describes the networks and their interfaces.
func networks(vmi *kubevirtv1.VirtualMachineInstanceSpec) []string {
	var lines []string

	for _, n := range vmi.Networks {
		parts := []string{fields(n.NetworkSource)}

		for _, nic := range vmi.Domain.Devices.Interfaces {
			if nic.Name == n.Name {
				nic.Name = "" // It is printed already.
				parts = append(parts, fields(nic))
			}
		}

		lines = append(lines, n.Name+": "+strings.Join(parts, ", "))
	}

	return lines
}

func secretKeys(secrets []*corev1.Secret) []string {
	var lines []string
	for _, s := range secrets {
		lines = append(lines, s.Name+": "+strings.Join(slices.Sorted(maps.Keys(s.Data)), ", "))
	}

	return lines
}

// fields lists the fields of an object that are set, with their values.
func fields(object any) string {
	raw, err := json.Marshal(object)
	if err != nil {
		return ""
	}

	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return ""
	}

	return strings.Join(leaves("", tree), ", ")
}

func leaves(path string, tree map[string]any) []string {
	var found []string

	for _, key := range slices.Sorted(maps.Keys(tree)) {
		inner, isObject := tree[key].(map[string]any)

		switch {
		case isObject && len(inner) > 0:
			found = append(found, leaves(path+key+".", inner)...)
		case isObject:
			found = append(found, path+key)
		case tree[key] != "":
			found = append(found, fmt.Sprintf("%s%s %v", path, key, tree[key]))
		}
	}

	return found
}
