package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/preflight"
)

const (
	// preflightMachine is a name that machine-controller-manager never gives to a Machine: its
	// random suffixes have no zeros (k8s.io/apimachinery/pkg/util/rand).
	preflightMachine = "mcm-kubevirt-preflight-00000"
	// preflightUID is a UID that no Machine has.
	preflightUID = "00000000-0000-0000-0000-000000000000"
)

// preflightOptions specify the classes to check, and the credentials.
type preflightOptions struct {
	manifestFlags
	clusterFlags
}

func preflightCommand() *cobra.Command {
	o := preflightOptions{manifestFlags: newManifestFlags(outputText)}

	cmd := &cobra.Command{
		Use:   "preflight [-f FILE…]",
		Short: "Check whether a provider cluster can run the machines of MachineClasses",
		Long: `Checks whether the machines of each MachineClass can be created and run on its provider cluster: credentials, permissions, versions,
storage, sources, zones, capacity, networks and quotas, and whether the API server and KubeVirt accept the driver's objects, which are
created as a dry run. Nothing is changed. Each warning and each error has a remedy.

The MachineClasses are those of the files or, without --filename, all in the namespace of the control cluster. The driver's permissions are
checked with the kubeconfig in the class's Secret, which is read from the files or else from the control cluster. The driver has no
permission to read nodes, storage classes, quotas and similar objects: these checks need --provider-kubeconfig with the kubeconfig of an
admin, and are warnings without it.

Exit codes:
  0  no errors; there may be warnings
  1  machines would not be created, or would not run
  2  the command line is invalid, or a file or the control cluster cannot be read
`,
		Example: `  mcm-kubevirt preflight -f machineclass.yaml -f secret.yaml --provider-kubeconfig admin.yaml
  mcm-kubevirt preflight --kubeconfig seed.yaml -n shoot--project--name -o json
  kubectl exec deploy/machine-controller-manager -c machine-controller-manager-provider-kubevirt -- /mcm-kubevirt preflight`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			discardLogs()

			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}

	o.manifestFlags.addTo(cmd.Flags())
	o.clusterFlags.addTo(cmd.Flags())
	o.manifestFlags.complete(cmd)
	o.clusterFlags.complete(cmd)

	return cmd
}

func (o *preflightOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	admin, err := o.provider()
	if err != nil {
		return err
	}

	subjects, unreadable, err := o.subjects(ctx, in, admin != nil)
	if err != nil {
		return err
	}

	result := preflightReport{Assumptions: o.assumptions(), Unreadable: unreadable}

	for _, group := range grouped(subjects) {
		result.Clusters = append(result.Clusters, o.check(ctx, group, admin))
	}

	result.count()

	if err := result.print(out, o.output.value); err != nil {
		return err
	}

	if result.Errors > 0 {
		return &invalidError{reason: "machines would not be created, or would not run"}
	}

	return nil
}

// assumptions are the assumed flags of the machine controller:
// they are known only from the command line.
func (o *preflightOptions) assumptions() []string {
	return []string{fmt.Sprintf("--evacuation=%t", o.evacuation), "--virtual-machine-template=" + o.template.value}
}

// subject is a class, and the data that the driver would receive with it.
type subject struct {
	class machineClass
	// data is the known data of its Secrets, and from is the origin of the kubeconfig.
	data map[string][]byte
	from string
	// wanted is the number of additional machines that it
	// needs; nil if no control cluster provides it.
	wanted *int
	// unusable is the reason why the class cannot be checked.
	unusable string
	// anyNamespace reports whether classes of all namespaces are checked.
	anyNamespace bool
}

// name returns the name of the class, with its namespace if the classes are from several.
func (s *subject) name() string {
	if s.anyNamespace {
		return s.class.Namespace + "/" + s.class.Name
	}

	return s.class.Name
}

// grouped groups classes by kubeconfig, in the order of their first
// appearance: their machines run on the same provider cluster.
func grouped(subjects []subject) [][]subject {
	var (
		groups [][]subject
		at     = map[string]int{}
	)

	for _, s := range subjects {
		key := string(s.data[apiv1alpha1.SecretKeyKubeconfig])

		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i

			groups = append(groups, nil)
		}

		groups[i] = append(groups[i], s)
	}

	return groups
}

// check checks the classes of one provider cluster.
func (o *preflightOptions) check(ctx context.Context, group []subject, admin []byte) *preflight.Report {
	input := &preflight.Input{Evacuation: o.evacuation, Now: time.Now()}

	if raw := group[0].data[apiv1alpha1.SecretKeyKubeconfig]; len(raw) > 0 {
		input.Driver = &preflight.Credentials{Kubeconfig: raw, From: group[0].from}
	}

	if admin != nil {
		input.Admin = &preflight.Credentials{Kubeconfig: admin, From: "--provider-kubeconfig"}
	}

	var unusable []preflight.Result

	for _, s := range group {
		class, reason := s.decode(o.allowed())
		if reason != "" {
			unusable = append(unusable, preflight.Unusable(s.name(), reason))

			continue
		}

		input.Classes = append(input.Classes, class)
	}

	if input.Driver == nil && input.Admin == nil {
		for _, class := range input.Classes {
			unusable = append(unusable, preflight.Unusable(class.Name, "its Secrets have no key "+apiv1alpha1.SecretKeyKubeconfig))
		}

		return &preflight.Report{Results: unusable}
	}

	report := preflight.Run(ctx, input)
	report.Results = append(report.Results, unusable...)

	return report
}

// decode returns the class with a sample machine as the driver
// would decode it, or the errors of the class.
func (s *subject) decode(allowed validation.Options) (preflight.Class, string) {
	if s.unusable != "" {
		return preflight.Class{}, s.unusable
	}

	validated := newClassReport(s.class)
	if len(validated.Errors) > 0 {
		texts := make([]string, 0, len(validated.Errors))
		for _, f := range validated.sorted().Errors {
			texts = append(texts, f.String())
		}

		return preflight.Class{}, strings.Join(texts, "; ")
	}

	machine, err := machineclass.DecodeCreateMachine(sampleMachine(), s.class.MachineClass, s.secret(), allowed)
	if err != nil {
		return preflight.Class{}, err.Error()
	}

	return preflight.Class{Name: s.name(), Machine: machine, Wanted: ptr.Deref(s.wanted, 1)}, ""
}

// sampleMachine returns a Machine of the class as machine-controller-manager would create it.
func sampleMachine() *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: preflightMachine, UID: preflightUID, Labels: map[string]string{"name": "mcm-kubevirt-preflight"},
	}}
}

// secret returns the Secret that machine-controller-manager would pass. Unknown data gets
// placeholders: the provider cluster does not depend on it.
func (s *subject) secret() *corev1.Secret {
	data := map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: []byte("unknown"), apiv1alpha1.SecretKeyUserData: []byte("#cloud-config\n")}

	for key, value := range s.data {
		if len(value) > 0 {
			data[key] = value
		}
	}

	return &corev1.Secret{Data: data}
}

// preflightReport is the output of preflight. Scripts depend on
// it: fields may be added, but never change.
type preflightReport struct {
	// Assumptions are the assumed flags of the machine controller that the results depend on.
	Assumptions []string `json:"assumptions"`
	// Unreadable are the errors for files, or parts of them, that
	// are not manifests. Each counts as an error.
	Unreadable []fileError `json:"unreadable,omitempty"`
	// Clusters has one report for each provider cluster and namespace.
	Clusters []*preflight.Report `json:"providerClusters"`
	OK       int                 `json:"ok"`
	Warnings int                 `json:"warnings"`
	Errors   int                 `json:"errors"`
}

func (r *preflightReport) count() {
	r.Errors = len(r.Unreadable)

	for _, cluster := range r.Clusters {
		for _, result := range cluster.Results {
			switch result.Level {
			case preflight.Error:
				r.Errors++
			case preflight.Warning:
				r.Warnings++
			default:
				r.OK++
			}
		}
	}
}

func (r *preflightReport) print(out io.Writer, format string) error {
	if format != outputText {
		return printObject(out, format, r)
	}

	fmt.Fprintf(out, "Assuming that the machine controller runs with %s; if its flags differ, pass them to this command too\n\n", strings.Join(r.Assumptions, " and "))

	for _, f := range r.Unreadable {
		fmt.Fprintf(out, "%s\n  error    %s\n\n", f.File, f.Message)
	}

	for _, cluster := range r.Clusters {
		printCluster(out, cluster)
	}

	_, err := fmt.Fprintf(out, "%d ok, %s, %s\n", r.OK, count(r.Warnings, "warning"), count(r.Errors, "error"))

	return err
}

func printCluster(out io.Writer, cluster *preflight.Report) {
	if cluster.Server != "" {
		fmt.Fprintf(out, "Provider cluster %s, namespace %s\n", cluster.Server, cluster.Namespace)
	}

	for _, i := range cluster.Identities {
		fmt.Fprintf(out, "  identity %-7s %s, from %s\n", i.Name, cmp.Or(i.User, "an unknown user"), i.From)
	}

	p := resultPrinter{out: out, printed: map[string]bool{}}
	for i := range cluster.Results {
		p.print(&cluster.Results[i])
	}

	fmt.Fprintln(out)
}

// resultPrinter prints the results of a cluster. It prints a
// remedy that several results share only once.
type resultPrinter struct {
	out     io.Writer
	class   string
	printed map[string]bool
}

func (p *resultPrinter) print(r *preflight.Result) {
	if r.Class != p.class {
		p.class = r.Class
		fmt.Fprintf(p.out, "\nMachineClass %s\n", cmp.Or(p.class, "without a name"))
	}

	message := r.Message
	if len(r.Classes) > 0 {
		message += " (MachineClasses " + strings.Join(r.Classes, ", ") + ")"
	}

	fmt.Fprintf(p.out, "  %-8s %-7s %-19s %s: %s\n", r.Level, r.Identity, r.Check, r.Subject, message)

	if r.Remedy == "" {
		return
	}

	remedy := r.Remedy
	if p.printed[remedy] {
		remedy = "same as above"
	}

	p.printed[r.Remedy] = true
	fmt.Fprintf(p.out, "  %-8s %-7s %-19s remedy: %s\n", "", "", "", remedy)
}
