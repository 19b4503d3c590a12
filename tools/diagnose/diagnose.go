// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose implements the command diagnose of mcm-kubevirt: it prints what package diagnosis finds.
package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/manifests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// options specify the clusters to read, and the settings of the diagnosis.
type options struct {
	genericiooptions.IOStreams

	clusters *controlcluster.Flags
	assumed  manifests.AssumedFlags
	output   *output.Flags
	grace    time.Duration
	all      bool
	// details is set to print the evidence for each of all machines.
	details bool
	// consoleLines is set to print lines of guests' consoles.
	consoleLines bool
	cluster      string
	// shoot is a technical ID in a seed, or a namespace and a name in a garden; empty to diagnose machines.
	shoot          string
	seedKubeconfig string
}

// NewCommand returns the command diagnose.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, clusters: controlcluster.NewFlags(), output: output.NewFlags(output.Text, false)}

	cmd := &cobra.Command{
		Use:   "diagnose MACHINE… | --all | --shoot SHOOT",
		Short: "Report the cause of a machine's or a Shoot's failure, with the evidence for it",
		Long: `Reads a Machine with its MachineClass and Secrets, the leases of its controllers, and its objects on the provider cluster, and
diagnoses them as the driver does. The result contains the cause with its machine code and remedy, the time of
machine-controller-manager's next retry and the command to retry immediately, and the objects, conditions and events that the
cause is based on. If there is no cause, the result contains the step that the machine waits for. A machine that never had a
VirtualMachine is created as a dry run. With --provider-kubeconfig, the serial console of a guest that does not join is read, of
which only known failures are printed. Nothing is changed, and the content of Secrets is not printed.

In the pod of the machine controller, no flag is needed. A VirtualMachine without a Machine is found by its name, with the
MachineClasses of the namespace, or, without a control cluster, with --provider-kubeconfig and --cluster.

With --all, the text output has a line for each Machine and each cause once; --details prints everything. MachineDeployments that
machine-controller-manager does not act on are reported, too: they have no Machines.

With --shoot, the command reads a Shoot of Gardener from its first to its last link, and reports the cause to repair first: Infrastructure,
ControlPlane, Worker, MachineDeployments, Machines with their live migrations, and volumes.
` + output.TroubleshootingURL + ` has a row for each cause.

Exit codes:
  0  no cause was found, or it has not lasted long enough to be a failure
  1  a cause was found
  2  the command line is invalid, or a machine could not be diagnosed
`,
		Example: `  kubectl exec deploy/machine-controller-manager -c machine-controller-manager-provider-kubevirt -- /mcm-kubevirt diagnose shoot--foo--bar-worker-z1-abc
  mcm-kubevirt diagnose --kubeconfig=seed.yaml -n shoot--foo--bar shoot--foo--bar-worker-z1-abc -o json
  mcm-kubevirt diagnose -n shoot--foo--bar --all
  mcm-kubevirt diagnose --kubeconfig=seed.yaml --shoot=shoot--foo--bar
  mcm-kubevirt diagnose --kubeconfig=garden.yaml --shoot=garden-foo/bar --seed-kubeconfig=seed.yaml
  mcm-kubevirt diagnose --provider-kubeconfig=provider.yaml --cluster=shoot--foo--bar shoot--foo--bar-worker-z1-abc`,
		ValidArgsFunction: output.Completing(o.clusters.MachineNames),
		RunE: func(cmd *cobra.Command, names []string) error {
			output.DiscardLogs()

			if err := o.validate(names); err != nil {
				return err
			}

			if o.shoot != "" {
				return o.runShoot(cmd.Context())
			}

			return o.run(cmd.Context(), names)
		},
	}

	o.clusters.AddTo(cmd)
	o.assumed.AddTo(cmd)
	o.output.AddTo(cmd)
	o.addFlags(cmd.Flags())

	return cmd
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.all, "all", false, "Diagnose all Machines of the namespace or, with --all-namespaces (-A), of the control cluster.")
	flags.BoolVar(&o.details, "details", false, "Print the evidence for each Machine, also with --all. YAML and JSON always contain it.")
	flags.BoolVar(&o.consoleLines, "console-lines", false,
		"Print whole lines of the serial console of a guest that does not join, and its last line: they may contain passwords and tokens. It requires --provider-kubeconfig.")
	flags.StringVar(&o.cluster, "cluster", "",
		"Value of the VirtualMachines' label mcm.gardener.cloud/cluster; set it, with --provider-kubeconfig, to diagnose without a control cluster.")
	flags.StringVar(&o.shoot, "shoot", "",
		"Shoot of Gardener to diagnose instead of machines: its technical ID if --kubeconfig is for the seed, or NAMESPACE/NAME if --kubeconfig is for the garden.")
	flags.StringVar(&o.seedKubeconfig, "seed-kubeconfig", "",
		"Path to the kubeconfig of the Shoot's seed; set it if --shoot is NAMESPACE/NAME, to look further than the Shoot's status.")
	flags.DurationVar(&o.grace, "unschedulable-grace", 30*time.Second,
		"Time after which an unschedulable machine counts as failed; set it to the value of the machine controller's flag.")
}

func (o *options) validate(names []string) error {
	if o.grace < 0 {
		return errors.New("--unschedulable-grace must not be negative")
	}

	return errors.Join(o.validateArguments(names), o.assumed.Validate(), o.output.Validate())
}

// validateArguments refuses missing and superfluous arguments.
func (o *options) validateArguments(names []string) error {
	every := o.all || o.clusters.AllNamespaces

	switch {
	case o.shoot != "":
		return o.validateShootArguments(names)
	case o.seedKubeconfig != "":
		return errors.New("--seed-kubeconfig requires --shoot=NAMESPACE/NAME; for machines, set --kubeconfig to the kubeconfig of the seed")
	case every && len(names) > 0:
		return errors.New("names of Machines cannot be combined with --all or --all-namespaces (-A); remove one")
	case every && o.cluster != "":
		return errors.New("--cluster uses no control cluster, so Machines cannot be listed; specify their names")
	case !every && len(names) == 0:
		return errors.New("no Machine specified; specify a name that kubectl get machines lists, or --all for all Machines")
	default:
		return nil
	}
}

func (o *options) run(ctx context.Context, names []string) error {
	d, err := o.diagnoser(o.clusters)
	if err != nil {
		return err
	}

	result, err := d.DiagnoseAll(ctx, names)
	if err != nil {
		return err
	}

	if len(names) == 0 && !o.details && o.output.IsText() {
		err = printSummary(o.Out, result, o.settings())
	} else {
		err = o.output.Print(o.Out, result, page(machinesTemplate, o.settings(), time.Now()))
	}

	if err != nil {
		return err
	}

	return outcome(result)
}

// settings returns the flags of the machine controller that the diagnosis assumes.
func (o *options) settings() string {
	return strings.Join(append([]string{"--unschedulable-grace=" + o.grace.String()}, o.assumed.List()...), " ")
}

// diagnoser returns the diagnoser of the machines in a control cluster.
func (o *options) diagnoser(flags *controlcluster.Flags) (*diagnosis.Diagnoser, error) {
	in := diagnosis.Options{Cluster: o.cluster, ConsoleLines: o.consoleLines, Allowed: o.assumed.Options, Grace: o.grace}

	var err error
	if in.Kubeconfig, err = flags.Provider(); err != nil {
		return nil, err
	}

	switch {
	case o.consoleLines && in.Kubeconfig == nil:
		err = errors.New("--console-lines requires the kubeconfig of an account that may read consoles; set --provider-kubeconfig")
	case o.cluster == "":
		in.Control, err = flags.Control()
	case in.Kubeconfig == nil:
		err = errors.New("--cluster requires a kubeconfig of the provider cluster; set --provider-kubeconfig")
	default:
		err = flags.RefuseImpersonation("--cluster is set")
	}

	if err != nil {
		return nil, err
	}

	return diagnosis.New(in)
}

// outcome returns the error for the exit code.
func outcome(d *diagnosis.Report) error {
	results := map[diagnosis.Result]int{}
	for i := range d.Machines {
		results[d.Machines[i].Result]++
	}

	all := output.Count(len(d.Machines), "machine")

	switch {
	case results[diagnosis.ResultUnknown] > 0:
		return fmt.Errorf("%d of %s could not be diagnosed", results[diagnosis.ResultUnknown], all)
	case results[diagnosis.ResultCauseFound] > 0:
		return output.InvalidError(fmt.Sprintf("%d of %s: a cause was found", results[diagnosis.ResultCauseFound], all))
	case len(d.Deployments) > 0:
		return output.InvalidError(deployed(d.Deployments) + ": a cause was found")
	default:
		return nil
	}
}
