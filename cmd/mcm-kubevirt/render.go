package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// renderOptions say what to render. There is no cluster: what the Secrets hold does not matter, and is not read.
type renderOptions struct {
	file       string
	class      string
	machine    string
	uid        string
	deployment string
	workerPool string
	namespace  string
}

func renderCommand() *cobra.Command {
	var o renderOptions

	cmd := &cobra.Command{
		Use:   "render -f machineclass.yaml --machine NAME",
		Short: "Print the Secret (redacted) and the VirtualMachine that would be created, without any cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}

	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", `File with the MachineClass, in YAML or JSON; "-" reads standard input. Other objects in it are passed over.`)
	flags.StringVar(&o.class, "class", "", "Name of the MachineClass, if the file has several.")
	flags.StringVar(&o.machine, "machine", "", "Name of the Machine.")
	flags.StringVar(&o.uid, "machine-uid", "00000000-0000-0000-0000-000000000000", "UID of the Machine, of which DataVolumes carry a part.")
	flags.StringVar(&o.deployment, "machine-deployment", "", "Name of the MachineDeployment, over whose machines hosts are spread.")
	flags.StringVar(&o.workerPool, "worker-pool", "", "Name of the worker pool, from the Machine's nodeTemplate.")
	flags.StringVar(&o.namespace, "namespace", metav1.NamespaceDefault, "Namespace on the provider cluster.")

	return cmd
}

func (o *renderOptions) run(in io.Reader, out io.Writer) error {
	if o.file == "" || o.machine == "" {
		return errors.New("--filename and --machine are required")
	}

	raw, err := o.read(in)
	if err != nil {
		return err
	}

	class, err := findClass(raw, o.class)
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}

	input, err := kubevirt.DecodeCreateMachine(o.request(class))
	if err != nil {
		return fmt.Errorf("%s: MachineClass %s: %w", o.file, class.Name, err)
	}

	return printYAML(out, redacted(render.UserDataSecret(input, o.namespace)), render.VirtualMachine(input, o.namespace))
}

func (o *renderOptions) read(in io.Reader) ([]byte, error) {
	if o.file == "-" {
		return io.ReadAll(in)
	}

	return os.ReadFile(o.file)
}

// request is what machine-controller-manager would send.
func (o *renderOptions) request(class *v1alpha1.MachineClass) *driver.CreateMachineRequest {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: o.machine, UID: types.UID(o.uid)}}
	if o.deployment != "" {
		machine.Labels = map[string]string{"name": o.deployment}
	}

	if o.workerPool != "" {
		machine.Spec.NodeTemplateSpec.Labels = map[string]string{apiv1alpha1.LabelWorkerPool: o.workerPool}
	}

	return &driver.CreateMachineRequest{
		Machine:      machine,
		MachineClass: class,
		Secret: &corev1.Secret{Data: map[string][]byte{
			apiv1alpha1.SecretKeyKubeconfig: []byte("not read"),
			apiv1alpha1.SecretKeyUserData:   []byte("not shown"),
		}},
	}
}

// findClass returns the MachineClass of that name, or the only one.
func findClass(raw []byte, name string) (*v1alpha1.MachineClass, error) {
	var found []*v1alpha1.MachineClass

	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1)

	for {
		document := json.RawMessage{}

		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return nil, fmt.Errorf("read as YAML or JSON: %w", err)
		}

		class, err := asClass(document)
		if err != nil {
			return nil, err
		}

		if class != nil && (name == "" || class.Name == name) {
			found = append(found, class)
		}
	}

	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no MachineClass %s in it", name)
	case 1:
		return found[0], nil
	default:
		return nil, errors.New("it has several MachineClasses: choose one with --class")
	}
}

// asClass returns the MachineClass that a document is, or nil if it is something else.
func asClass(document json.RawMessage) (*v1alpha1.MachineClass, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(document, &kind); err != nil || kind.Kind != "MachineClass" {
		return nil, nil //nolint:nilnil,nilerr // Whatever else the file holds is passed over.
	}

	class := &v1alpha1.MachineClass{}
	if err := yaml.UnmarshalStrict(document, class); err != nil {
		return nil, fmt.Errorf("read MachineClass: %w", err)
	}

	return class, nil
}

// redacted returns the Secret with its keys and without its values.
func redacted(secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.StringData = map[string]string{}

	for key := range secret.Data {
		secret.StringData[key] = "REDACTED"
	}

	secret.Data = nil

	return secret
}

func printYAML(out io.Writer, objects ...any) error {
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}

		if i > 0 {
			text = append([]byte("---\n"), text...)
		}

		if _, err := out.Write(text); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}

	return nil
}
