// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package render implements the command render of mcm-kubevirt: it prints the objects of a machine. It reaches no
// cluster.
package render

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// redacted replaces the user data. Everything else in a machine's Secrets comes from the
// MachineClass, and is shown.
const redacted = "REDACTED"

// options specify the objects to render. No cluster is involved: the content of the Secrets
// does not matter, and is not read.
type options struct {
	genericiooptions.IOStreams

	files     manifests.FileFlags
	assumed   manifests.AssumedFlags
	output    *output.Flags
	class     string
	machine   string
	namespace string
}

// NewCommand returns the command render.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, output: output.NewFlags("yaml", true)}

	cmd := &cobra.Command{
		Use:   "render -f machineclass.yaml --machine NAME",
		Short: "Print the Secrets, the golden image and the VirtualMachine of a machine, without access to a cluster",
		Long: `Reads a MachineClass and prints the objects that the driver would create for one of its machines: the Secrets, with the user data
redacted, the golden image if the machine is cloned from one, and the VirtualMachine. Other objects in the files are skipped. "-o text"
prints a summary and warnings instead.
` + output.ExitCodes,
		Example: `  mcm-kubevirt render -f machineclass.yaml --machine worker-1
  mcm-kubevirt render -f machineclasses.yaml --class worker-z1 --machine worker-1 -o text`,
		Args:    manifests.NoArguments,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() },
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}

	o.files.AddFlags(cmd.Flags())
	o.assumed.AddTo(cmd)
	o.output.AddTo(cmd)

	flags := cmd.Flags()
	flags.StringVar(&o.class, "class", "", "Name of the MachineClass; required if the files contain several.")
	flags.StringVar(&o.machine, "machine", "", "Name of the Machine; required, since the names of the objects are derived from it.")
	flags.StringVar(&o.namespace, "provider-namespace", metav1.NamespaceDefault,
		"Namespace of the machines on the provider cluster; set it to that of the driver's kubeconfig to apply the objects there.")
	output.CompleteFlag(cmd, "class", output.Completing(o.classes))

	return cmd
}

// classes returns the names of the MachineClasses in the given files.
func (o *options) classes(context.Context) []string {
	if slices.Contains(o.files.Names, "-") { // Standard input is the terminal.
		return nil
	}

	m, err := manifests.Read(&o.files, nil)
	if err != nil {
		return nil
	}

	return slices.Compact(slices.Sorted(slices.Values(m.ClassNames())))
}

func (o *options) validate() error {
	if !o.files.Given() || o.machine == "" {
		return errors.Join(o.assumed.Validate(),
			errors.New("--filename (-f) and --machine are required: mcm-kubevirt render -f machineclass.yaml --machine NAME"))
	}

	return errors.Join(o.files.Validate(), o.assumed.Validate(), o.output.Validate())
}

func (o *options) run() error {
	m, err := manifests.Read(&o.files, o.In)
	if err != nil {
		return err
	}

	class, err := m.Class(o.class)
	if err != nil {
		return err
	}

	result, err := o.render(class)
	if err != nil {
		return output.InvalidError(fmt.Sprintf("%s:%d: MachineClass %s: %s", class.Report.File, class.Report.Line, class.Name, err))
	}

	switch objects := result.objects(); o.output.Format {
	case output.Text:
		return page.Write(o.Out, result)
	case "yaml", "name":
		return o.output.PrintObjects(o.Out, objects...)
	default: // as kubectl prints several objects
		list := &corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
		for _, object := range objects {
			list.Items = append(list.Items, runtime.RawExtension{Object: object})
		}

		return o.output.PrintObjects(o.Out, list)
	}
}

// rendered holds the objects that the driver would create for a machine.
type rendered struct {
	Class   manifests.Class
	Input   *spi.CreateMachineInput
	Secrets []*corev1.Secret
	// Image is nil for a machine without a golden image.
	Image *cdiv1beta1.DataVolume
	VM    *kubevirtv1.VirtualMachine
}

func (o *options) render(class manifests.Class) (*rendered, error) {
	input, err := class.Machine(o.machine, nil, map[string][]byte{
		apiv1alpha1.SecretKeyKubeconfig: []byte("not read"), apiv1alpha1.SecretKeyUserData: []byte(redacted),
	}, o.assumed.Options)
	if err != nil {
		return nil, err
	}

	result := &rendered{Class: class, Input: input, Secrets: render.Secrets(input, o.namespace)}

	if result.VM, err = render.VirtualMachine(input, o.namespace); err != nil {
		return nil, err
	}

	if input.Spec.UsesGoldenImage() {
		result.Image, err = input.Image().DataVolume(o.namespace)
	}

	return result, err
}

// objects returns the objects to print. The Secrets have their data as text.
func (r *rendered) objects() []runtime.Object {
	var objects []runtime.Object

	for _, secret := range r.Secrets {
		readable := secret.DeepCopy()
		readable.Data = nil
		readable.StringData = map[string]string{}

		for key, value := range secret.Data {
			readable.StringData[key] = string(value)
		}

		objects = append(objects, readable)
	}

	if r.Image != nil {
		objects = append(objects, r.Image)
	}

	return append(objects, r.VM)
}

// page is the summary of a machine.
var page = output.Page{Columns: true, Funcs: template.FuncMap{"fields": fields, "dataVolume": dataVolume}, Template: `VirtualMachine {{.VM.Namespace}}/{{.VM.Name}} of MachineClass {{.Class.Name}}
region	{{.Input.Spec.Region}}
zone	{{.Input.Spec.Zone}}
instancetype	{{fields .VM.Spec.Instancetype}}
run strategy	{{with .VM.Spec.RunStrategy}}{{.}}{{end}}
{{with .VM.Spec.Template.Spec -}}
cpu	{{fields .Domain.CPU}}
memory	{{fields .Domain.Memory}}
requests	{{fields .Domain.Resources.Requests}}
limits	{{fields .Domain.Resources.Limits}}
architecture	{{.Architecture}}
eviction strategy	{{with .EvictionStrategy}}{{.}}{{end}}
{{range .Volumes}}volume	{{fields .}}
{{end}}{{range .Networks}}network	{{fields .}}
{{end}}{{range .Domain.Devices.Interfaces}}interface	{{fields .}}
{{end}}{{end}}{{range .VM.Spec.DataVolumeTemplates}}DataVolume	{{dataVolume .Name .Spec}}
{{end}}{{with .Image}}golden image	{{dataVolume .Name .Spec}}
{{end}}{{range .Secrets}}Secret	{{.Name}} with{{range $key, $_ := .Data}} {{$key}}{{end}}
{{end}}{{range $key, $value := .VM.Labels}}label	{{$key}}={{$value}}
{{end}}{{range .Warnings}}warning	{{.}}
{{end}}`}

// Warnings returns the warnings about the class.
func (r *rendered) Warnings() []manifests.Finding {
	report := manifests.Report{}
	report.AddWarnings(r.Class.Warnings(r.Input.Spec))

	return report.Sorted().Warnings
}

// dataVolume describes the size and the source of a DataVolume.
func dataVolume(name string, spec cdiv1beta1.DataVolumeSpec) string {
	size := "size of its source"
	if quantity := (&apiv1alpha1.DataVolume{DataVolumeSpec: spec}).Size(); quantity != nil {
		size = quantity.String()
	}

	return fmt.Sprintf("%s: %s, from %s", name, size, cmp.Or(fields(spec.SourceRef), fields(spec.Source)))
}

// sensitive are the fields of sources and volumes that may contain credentials.
var sensitive = []string{"extraHeaders", "userData", "userDataBase64", "networkData", "networkDataBase64"}

// fields lists the fields of an object that are set, with their values. It omits sensitive
// ones.
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
		case slices.Contains(sensitive, key):
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
