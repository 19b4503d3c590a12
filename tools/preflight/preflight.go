// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight implements the command preflight of mcm-kubevirt: it reads MachineClasses and their credentials,
// and prints the results of package checks.
package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// preflightMachine is a name that machine-controller-manager never gives to a Machine: its random
// suffixes have no zeros (k8s.io/apimachinery/pkg/util/rand).
const preflightMachine = "mcm-kubevirt-preflight-00000"

// options specify the classes to check, and the credentials.
type options struct {
	genericiooptions.IOStreams

	clusters *controlcluster.Flags
	files    manifests.FileFlags
	assumed  manifests.AssumedFlags
	output   *output.Flags
	// all is set to print the results that are ok, too.
	all bool
	// admin is the content of --provider-kubeconfig; nil without that flag.
	admin []byte
}

// NewCommand returns the command preflight.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, clusters: controlcluster.NewFlags(), output: output.NewFlags(output.Text, false)}

	cmd := &cobra.Command{
		Use:   "preflight [-f FILE…]",
		Short: "Check whether a provider cluster can run the machines of MachineClasses",
		Long: `Checks whether the machines of each MachineClass can be created and run on its provider cluster: credentials, permissions, versions,
storage, sources, zones, networks and quotas, and whether the API server and KubeVirt accept the driver's objects, which are
created as a dry run. Nothing is changed. Each warning and each error has a remedy; what is ok is only counted without --all.

The MachineClasses are those of the files or, without --filename, all in the namespace of the control cluster. The driver's permissions are
checked with the kubeconfig in the class's Secret, which is read from the files or, if they do not contain it, from the control cluster. The driver does not
need permission to read nodes, storage classes, quotas and similar objects: these checks need --provider-kubeconfig with the kubeconfig of an
admin, and are warnings without it.

Exit codes:
  0  no errors; there may be warnings
  1  machines would not be created, or would not run
  2  the command line is invalid, or a file or the control cluster cannot be read
`,
		Example: `  mcm-kubevirt preflight -f machineclass.yaml -f secret.yaml --provider-kubeconfig admin.yaml
  mcm-kubevirt preflight --kubeconfig seed.yaml -n shoot--project--name -o json
  kubectl exec deploy/machine-controller-manager -c machine-controller-manager-provider-kubevirt -- /mcm-kubevirt preflight`,
		Args: manifests.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			output.DiscardLogs()

			if err := o.validate(); err != nil {
				return err
			}

			if err := o.complete(); err != nil {
				return err
			}

			return o.run(cmd.Context())
		},
	}

	o.files.AddFlags(cmd.Flags())
	o.assumed.AddTo(cmd)
	o.clusters.AddTo(cmd)
	o.output.AddTo(cmd)
	cmd.Flags().BoolVar(&o.all, "all", false, "List also what is ok, after the errors and warnings. YAML and JSON always contain it.")

	return cmd
}

func (o *options) validate() error {
	return errors.Join(o.files.Validate(), o.assumed.Validate(), o.output.Validate())
}

// complete reads the administrator's kubeconfig.
func (o *options) complete() (err error) {
	o.admin, err = o.clusters.Provider()

	return err
}

func (o *options) run(ctx context.Context) error {
	subjects, unreadable, err := o.subjects(ctx)
	if err != nil {
		return err
	}

	result := &report{Assumptions: o.assumed.List(), Unreadable: unreadable}

	for _, group := range grouped(subjects) {
		result.Clusters = append(result.Clusters, o.check(ctx, group))
	}

	result.count()

	shown := result
	if o.output.IsText() {
		shown = result.bySeverity(o.all)
	}

	if err := o.output.Print(o.Out, shown, page); err != nil {
		return err
	}

	if result.Errors > 0 {
		return output.InvalidError("machines would not be created, or would not run")
	}

	return nil
}

// subject is a class, and the data that the driver would receive with it.
type subject struct {
	// name is the name of the class, with its namespace if the classes are from several.
	name  string
	class manifests.Class
	// data is the known data of its Secrets, and from is the origin of the kubeconfig.
	data map[string][]byte
	from string
	// wanted is the number of additional machines that it
	// needs; nil if no control cluster provides it.
	wanted *int
	// unusable is the reason why the class cannot be checked.
	unusable error
}

// grouped groups classes by kubeconfig, in the order of their first
// appearance: their machines run on the same provider cluster.
func grouped(subjects []subject) [][]subject {
	var groups [][]subject

	for _, s := range subjects {
		key := s.data[apiv1alpha1.SecretKeyKubeconfig]
		at := slices.IndexFunc(groups, func(group []subject) bool { return bytes.Equal(group[0].data[apiv1alpha1.SecretKeyKubeconfig], key) })

		if at < 0 {
			groups = append(groups, []subject{s})
		} else {
			groups[at] = append(groups[at], s)
		}
	}

	return groups
}

// check checks the classes of one provider cluster.
func (o *options) check(ctx context.Context, group []subject) *checks.Report {
	var (
		input    = &checks.Input{Evacuation: o.assumed.Options.Evacuation, Now: time.Now()}
		unusable []checks.Result
	)

	if raw := group[0].data[apiv1alpha1.SecretKeyKubeconfig]; len(raw) > 0 {
		input.Driver = &checks.Credentials{Kubeconfig: raw, From: group[0].from}
	}

	if o.admin != nil {
		input.Admin = &checks.Credentials{Kubeconfig: o.admin, From: "--provider-kubeconfig"}
	}

	for _, s := range group {
		machine, err := s.machine(o.assumed.Options)
		if err == nil && input.Driver == nil && input.Admin == nil {
			err = errors.New("its Secrets have no key " + apiv1alpha1.SecretKeyKubeconfig)
		}

		if err != nil {
			unusable = append(unusable, checks.Unusable(s.name, err.Error()))
		} else {
			input.Classes = append(input.Classes, checks.Class{Name: s.name, Machine: machine, Wanted: ptr.Deref(s.wanted, 1)})
		}
	}

	if input.Driver == nil && input.Admin == nil {
		return &checks.Report{Results: unusable}
	}

	report := checks.Run(ctx, input)
	report.Results = append(report.Results, unusable...)

	return report
}

// machine returns a sample machine of the class. Unknown data of its Secrets get placeholders: the
// provider cluster does not depend on them.
func (s *subject) machine(allowed validation.Options) (*spi.CreateMachineInput, error) {
	if s.unusable != nil {
		return nil, s.unusable
	}

	data := map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: []byte("unknown"), apiv1alpha1.SecretKeyUserData: []byte("#cloud-config\n")}

	for key, value := range s.data {
		if len(value) > 0 {
			data[key] = value
		}
	}

	return s.class.Machine(preflightMachine, map[string]string{"name": "mcm-kubevirt-preflight"}, data, allowed)
}

// subjects returns the classes of the files, or of the control cluster.
func (o *options) subjects(ctx context.Context) (subjects []subject, unreadable []manifests.FileError, err error) {
	if o.files.Given() {
		return o.subjectsOfFiles(ctx)
	}

	control, err := o.clusters.Control()
	if err == nil {
		subjects, err = subjectsOf(ctx, control)
	}

	return subjects, nil, err
}

func (o *options) subjectsOfFiles(ctx context.Context) ([]subject, []manifests.FileError, error) {
	m, err := manifests.Read(&o.files, o.In)
	if err == nil {
		err = m.RequireClass()
	}

	if err != nil {
		return nil, nil, err
	}

	subjects := make([]subject, len(m.Classes))
	used := false

	for i, class := range m.Classes {
		data := m.DataOf(class, &manifests.Report{})
		subjects[i] = subject{name: class.Name, class: class, data: data.Values, from: data.From[apiv1alpha1.SecretKeyKubeconfig].Name}

		// A user with another kubeconfig may have no access to the control cluster.
		if subjects[i].from != "" || (o.admin != nil && *o.clusters.KubeConfig == "") {
			continue
		}

		used = true

		control, err := o.clusters.Control()
		if err == nil {
			err = subjects[i].complete(ctx, control)
		}

		if err != nil {
			return nil, nil, fmt.Errorf("find the kubeconfig of the provider cluster: %w; add the Secret of MachineClass %s to the files, or set "+
				"--provider-kubeconfig", err, class.Name)
		}
	}

	if !used {
		err = o.clusters.RefuseImpersonation("the files or --provider-kubeconfig have all kubeconfigs")
	}

	return subjects, m.Unreadable, err
}

// complete reads the Secrets of a class from the control cluster.
func (s *subject) complete(ctx context.Context, c *controlcluster.Cluster) (err error) {
	if refs := controlcluster.SecretRefs(s.class.MachineClass); len(refs) > 0 { // The last one usually contains the kubeconfig.
		s.from = "Secret " + refs[len(refs)-1].Namespace + "/" + refs[len(refs)-1].Name
	}

	s.data, err = c.SecretData(ctx, s.class.MachineClass)

	return err
}

// subjectsOf returns the driver's classes in the namespace. A class
// whose Secrets cannot be read is unusable.
func subjectsOf(ctx context.Context, c *controlcluster.Cluster) ([]subject, error) {
	list, err := c.Machines.MachineClasses(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineClasses in %s: %w", c.Where(), err)
	}

	wanted, err := missingMachines(ctx, c)
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
			name:   class.Name,
			class:  manifests.Class{MachineClass: class},
			wanted: ptr.To(max(0, wanted[types.NamespacedName{Namespace: class.Namespace, Name: class.Name}])),
		}
		if c.Namespace == metav1.NamespaceAll {
			s.name = class.Namespace + "/" + class.Name
		}

		s.unusable = s.complete(ctx, c)
		subjects = append(subjects, s)
	}

	if len(subjects) == 0 {
		return nil, fmt.Errorf("no MachineClass of provider %s in %s; select another namespace with --namespace (-n), "+
			"or files with --filename (-f)", machineclass.Provider, c.Where())
	}

	return subjects, nil
}

// missingMachines returns the number of machines that are still to be created, by class.
func missingMachines(ctx context.Context, c *controlcluster.Cluster) (map[types.NamespacedName]int, error) {
	deployments, err := c.Machines.MachineDeployments(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list MachineDeployments in %s: %w", c.Where(), err)
	}

	machines, err := c.Machines.Machines(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Machines in %s: %w", c.Where(), err)
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
