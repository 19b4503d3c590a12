package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	// diagnoseRetryFor is how long transient errors of the provider cluster are retried. The user
	// is waiting, and can repeat the command.
	diagnoseRetryFor = 5 * time.Second
	// diagnoseQPS limits the load on a provider cluster that others need too.
	diagnoseQPS = 20
)

// diagnoseOptions specify the clusters to read, and the settings of the diagnosis.
type diagnoseOptions struct {
	clusterFlags

	all     bool
	cluster string
	role    string
	output  choice

	// grace, template and evacuation are flags of the machine controller.
	grace      time.Duration
	template   choice
	evacuation bool
}

func diagnoseCommand() *cobra.Command {
	manifest := newManifestFlags(outputText)
	o := diagnoseOptions{output: manifest.output, template: manifest.template}

	cmd := &cobra.Command{
		Use:   "diagnose MACHINE…",
		Short: "Report the cause of a machine's failure, with the evidence for it",
		Long: `Reads a Machine with its MachineClass and Secrets, the leases of its controllers, and its objects on the provider cluster, and
diagnoses them as the driver does. The result contains the cause with its machine code and remedy, the time of
machine-controller-manager's next retry and the command to retry immediately, and the objects, conditions and events that the
cause is based on. If there is no cause, the result contains the step that the machine waits for. A machine that never had a
VirtualMachine is created as a dry run. Nothing is changed, and the content of Secrets is not printed.

In the pod of the machine controller, no flag is needed. A VirtualMachine without a Machine is found by its name, with the
MachineClasses of the namespace, or, without a control cluster, with --provider-kubeconfig and --cluster.
` + troubleshootingURL + ` has a row for each cause.

Exit codes:
  0  no cause was found, or it has not lasted long enough to be a failure
  1  a cause was found
  2  the command line is invalid, or a machine could not be diagnosed
`,
		Example: `  kubectl exec deploy/machine-controller-manager -c machine-controller-manager-provider-kubevirt -- /mcm-kubevirt diagnose shoot--foo--bar-worker-z1-abc
  mcm-kubevirt diagnose --kubeconfig=seed.yaml -n shoot--foo--bar shoot--foo--bar-worker-z1-abc -o json
  mcm-kubevirt diagnose -n shoot--foo--bar --all
  mcm-kubevirt diagnose --provider-kubeconfig=provider.yaml --cluster=shoot--foo--bar shoot--foo--bar-worker-z1-abc`,
		Args:              o.arguments,
		ValidArgsFunction: o.completeMachines,
		RunE: func(cmd *cobra.Command, names []string) error {
			discardLogs()

			return o.run(cmd.Context(), names, cmd.OutOrStdout())
		},
	}

	flags := cmd.Flags()
	o.addTo(flags)
	flags.BoolVar(&o.all, "all", false, "Diagnose all Machines of the namespace or, with --all-namespaces (-A), of the control cluster.")
	flags.StringVar(&o.cluster, "cluster", "",
		"Value of the VirtualMachines' label mcm.gardener.cloud/cluster; set it, with --provider-kubeconfig, to diagnose without a control cluster.")
	flags.StringVar(&o.role, "role", "node", "Value of the VirtualMachines' label mcm.gardener.cloud/role; set it with --cluster if the class has another role.")
	flags.DurationVar(&o.grace, "unschedulable-grace", 30*time.Second,
		"Time after which an unschedulable machine counts as failed; set it to the value of the machine controller's flag.")
	flags.Var(&o.template, "virtual-machine-template",
		"Allowed content of virtualMachineTemplate in a providerSpec; set it to the value of the machine controller's flag.")
	flags.BoolVar(&o.evacuation, "evacuation", false, "Set it if the machine controller runs with --evacuation.")
	flags.VarP(&o.output, "output", "o", "Output format; use yaml or json in scripts.")
	o.complete(cmd)
	completeChoices(cmd, "output", o.output.allowed)
	completeChoices(cmd, "virtual-machine-template", o.template.allowed)

	return cmd
}

// arguments rejects missing and superfluous arguments.
func (o *diagnoseOptions) arguments(_ *cobra.Command, names []string) error {
	every := o.all || o.allNamespaces

	switch {
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

func (o *diagnoseOptions) run(ctx context.Context, names []string, out io.Writer) error {
	sources, err := o.sources()
	if err != nil {
		return err
	}

	if o.all || o.allNamespaces {
		return o.runAll(ctx, sources, out)
	}

	result := diagnoses{Machines: []diagnosis{}}

	explainer, err := o.explainer()
	if err != nil {
		return err
	}

	for _, name := range names {
		result.Machines = append(result.Machines, o.diagnose(ctx, explainer, sources, name))
	}

	return o.finish(&result, out)
}

// runAll diagnoses all Machines of one namespace, or of all namespaces.
func (o *diagnoseOptions) runAll(ctx context.Context, sources *machineSource, out io.Writer) error {
	list, err := sources.control.Machines.MachineV1alpha1().Machines(sources.control.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Machines in %s: %w", sources.control.where(), err)
	}

	if len(list.Items) == 0 {
		return fmt.Errorf("no Machine in %s; select another namespace with --namespace (-n)", sources.control.where())
	}

	result := diagnoses{Machines: []diagnosis{}}

	explainer, err := o.explainer()
	if err != nil {
		return err
	}

	for i := range list.Items {
		m := &list.Items[i]
		in := &machineSource{control: sources.control.in(m.Namespace), provider: sources.provider, known: sources.known}
		result.Machines = append(result.Machines, o.diagnose(ctx, explainer, in, m.Name))
	}

	return o.finish(&result, out)
}

// finish prints the result, and returns the error for the exit code.
func (o *diagnoseOptions) finish(result *diagnoses, out io.Writer) error {
	if err := result.print(out, o.output.value, o.settings()); err != nil {
		return err
	}

	return result.outcome()
}

// settings returns the flags that determine whether a cause counts as a failure.
func (o *diagnoseOptions) settings() string {
	return fmt.Sprintf("--unschedulable-grace=%s --virtual-machine-template=%s --evacuation=%t", o.grace, o.template.value, o.evacuation)
}

// sources returns the source of Machines.
func (o *diagnoseOptions) sources() (*machineSource, error) {
	if o.grace < 0 {
		return nil, errors.New("--unschedulable-grace must not be negative")
	}

	provider, err := o.clusterFlags.provider()
	if err != nil {
		return nil, err
	}

	sources := &machineSource{provider: provider, known: map[string][]controllerState{}}

	switch {
	case o.cluster == "":
		sources.control, err = o.control()
	case provider == nil:
		err = errors.New("--cluster requires a kubeconfig of the provider cluster; set --provider-kubeconfig")
	default:
		sources.class, err = classOf(o.cluster, o.role)
	}

	return sources, err
}

// explainer returns the driver's access to provider clusters.
func (o *diagnoseOptions) explainer() (spi.Explainer, error) {
	driver := driveroptions.New()
	driver.ProviderQPS, driver.RetryFor, driver.UnschedulableGrace = diagnoseQPS, diagnoseRetryFor, o.grace

	return driver.Provider(driveroptions.Controller{}, prometheus.NewRegistry())
}

// diagnose diagnoses one machine.
func (o *diagnoseOptions) diagnose(ctx context.Context, explainer spi.Explainer, sources *machineSource, name string) diagnosis {
	found, err := sources.find(ctx, name)
	if err != nil {
		return diagnosis{Name: name, Result: resultUnknown, Error: statustext.Printable(err.Error())}
	}

	d := newDiagnosis(name, found)

	if len(found.requests) > 0 {
		explanation, unread := search(ctx, explainer, found, o.allowed())
		d.addExplanation(explanation, sources.provider != nil, time.Now())
		d.addRetry(found, explanation)
		d.addUnread(explanation, unread)
	}

	if found.machine != nil {
		control := &controlState{Controllers: sources.controllers(ctx), Secrets: found.secrets.shown(), LastUpdate: lastUpdate(found.machine)}
		d.addControl(control, found.controlCauses(control, time.Now()))
	}

	return d
}

func (o *diagnoseOptions) allowed() validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(o.template.value), Evacuation: o.evacuation}
}

// search looks for the machine on each provider cluster where it may be, until it finds one of its
// objects, or a foreign object with its name. If there are several clusters, an error of one of
// them is only listed as unread: it is no cause for a machine that may be on another one.
func search(
	ctx context.Context, explainer spi.Explainer, found *foundMachine, allowed validation.Options,
) (last *kubevirt.Explanation, unread []string) {
	unread = found.unread
	alone := len(found.requests) == 1 && len(unread) == 0

	for i := range found.requests {
		e := kubevirt.Explain(ctx, explainer, &found.requests[i], allowed)

		switch {
		case e.Found() || alone:
			return e, unread
		case e.Machine == nil:
			unread = append(unread, fmt.Sprintf("with MachineClass %s: %s: %s", found.requests[i].MachineClass.Name, e.Cause.Err.Reason, e.Cause.Err.Message))
		}

		if last == nil || e.Machine != nil {
			last = e
		}
	}

	return last, unread
}

// outcome returns the error for the exit code.
func (d *diagnoses) outcome() error {
	var failed, undiagnosed int

	for i := range d.Machines {
		switch d.Machines[i].Result {
		case resultCauseFound:
			failed++
		case resultUnknown:
			undiagnosed++
		default:
		}
	}

	switch {
	case undiagnosed > 0:
		return fmt.Errorf("%d of %s could not be diagnosed", undiagnosed, count(len(d.Machines), "machine"))
	case failed > 0:
		return &invalidError{reason: fmt.Sprintf("%d of %s: a cause was found", failed, count(len(d.Machines), "machine"))}
	default:
		return nil
	}
}
