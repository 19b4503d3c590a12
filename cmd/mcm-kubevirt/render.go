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
	"text/template"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
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
		return printPage(out, outputText, result, summaryText, template.FuncMap{"fields": fields, "dataVolume": dataVolume})
	}

	return printObjects(out, *o.output, result.objects())
}

// rendered holds the objects that the driver would create for a machine.
type rendered struct {
	Class   machineClass
	Input   *spi.CreateMachineInput
	Secrets []*corev1.Secret
	// Image is nil for a machine without a golden image.
	Image *cdiv1beta1.DataVolume
	VM    *kubevirtv1.VirtualMachine
}

func (o *renderOptions) render(class machineClass) (*rendered, error) {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: o.machine, UID: noUID}}

	input, err := class.sample(machine, map[string][]byte{
		apiv1alpha1.SecretKeyKubeconfig: []byte("not read"), apiv1alpha1.SecretKeyUserData: []byte(redacted),
	}, o.assumed.allowed())
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
func (r *rendered) objects() []any {
	var objects []any

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

// summaryText is the summary of a machine, to be formatted by layout.
const summaryText = `VirtualMachine {{.VM.Namespace}}/{{.VM.Name}} of MachineClass {{.Class.Name}}
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
{{end}}`

// Warnings returns the warnings about the class.
func (r *rendered) Warnings() []finding {
	report := classReport{}
	report.addWarnings(r.Class.warnings(r.Input.Spec))

	return report.sorted().Warnings
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
