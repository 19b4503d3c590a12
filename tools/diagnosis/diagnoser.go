package diagnosis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// Diagnoser diagnoses machines, with the objects of the control cluster and the driver's diagnosis
// of their provider clusters.
type Diagnoser struct {
	Options

	// class is the class of all machines if no control cluster is used.
	class     *v1alpha1.MachineClass
	explainer interface {
		spi.Explainer
		spi.VolumesExplainer
	}

	// controllers holds the states of the controllers, by namespace. They are read once.
	controllers map[string][]controlcluster.Controller
}

const (
	// diagnoseRetryFor is how long transient errors of the provider cluster are retried. The user
	// is waiting, and can repeat the command.
	diagnoseRetryFor = 5 * time.Second
	// diagnoseQPS limits the load on the provider cluster, which other clients share.
	diagnoseQPS = 20
)

// Options specify where machines are looked for.
type Options struct {
	// Control is the control cluster; nil to use none. Then Cluster is the cluster tag of all machines.
	Control *controlcluster.Cluster
	Cluster string
	// Kubeconfig replaces those in the Secrets; nil to use those.
	Kubeconfig []byte
	Allowed    validation.Options
	// Grace is how long a machine may be unschedulable.
	Grace time.Duration
}

// New returns the diagnoser of machines.
func New(o Options) (*Diagnoser, error) {
	driver := driveroptions.New()
	driver.Requests.QPS = diagnoseQPS
	driver.Requests.RetryFor = diagnoseRetryFor
	driver.Machines.UnschedulableGrace = o.Grace

	clusters, err := driver.ProviderClusters(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}

	d := &Diagnoser{Options: o, explainer: clusters.Explainer, controllers: map[string][]controlcluster.Controller{}}
	if d.Control == nil {
		d.class, err = classOf(o.Cluster)
	}

	return d, err
}

// foundMachine is a Machine, or a substitute for a missing one.
type foundMachine struct {
	namespace string
	// machine is nil if there is none in the control cluster, or no control cluster is used.
	machine *v1alpha1.Machine
	// requests are the requests that would be sent to the driver. Without a Machine, there is one
	// for each class that it may have had.
	requests []kubevirt.ExplainRequest
	// unread lists the MachineClasses whose Secrets could not be read, and why.
	unread []string

	// class is the class of the Machine; nil without a Machine, or if it does not exist.
	class   *v1alpha1.MachineClass
	secrets controlcluster.ClassSecrets
	// overridden reports whether a kubeconfig other than the one in the Secrets is used.
	overridden bool
	// otherServer says that this kubeconfig is, or may be, for another cluster than the one in the Secrets.
	otherServer string
}

// classOf returns a class that contains only the tags of its machines. Gardener's have the role
// node.
func classOf(cluster string) (*v1alpha1.MachineClass, error) {
	spec, err := json.Marshal(map[string]any{"tags": map[string]string{apiv1alpha1.TagCluster: cluster, apiv1alpha1.TagRole: "node"}})
	if err != nil {
		return nil, fmt.Errorf("write the tags: %w", err)
	}

	return &v1alpha1.MachineClass{ProviderSpec: runtime.RawExtension{Raw: spec}}, nil
}

// DiagnoseAll diagnoses the named Machines or, without names, all in the namespace and its MachineDeployments.
func (d *Diagnoser) DiagnoseAll(ctx context.Context, names []string) (*Report, error) {
	machines, err := d.list(ctx, names)
	if err != nil {
		return nil, err
	}

	result := &Report{Machines: []Machine{}}
	if len(names) == 0 {
		result.Deployments, result.Unread = d.diagnoseDeployments(ctx)
	}

	if len(machines)+len(result.Deployments) == 0 {
		return nil, fmt.Errorf("no Machine in %s; select another namespace with --namespace (-n)", d.Control.Where())
	}

	for _, machine := range machines {
		result.Machines = append(result.Machines, d.diagnose(ctx, machine))
	}

	output.Sanitize(result)

	return result, nil
}

// list returns the named Machines or, without names, all in the namespace.
func (d *Diagnoser) list(ctx context.Context, names []string) ([]types.NamespacedName, error) {
	var machines []types.NamespacedName

	namespace := ""
	if d.Control != nil {
		namespace = d.Control.Namespace
	}

	for _, name := range names {
		name, err := machineName(name)
		if err != nil {
			return nil, err
		}

		machines = append(machines, types.NamespacedName{Namespace: namespace, Name: name})
	}

	if len(names) > 0 {
		return machines, nil
	}

	list, err := d.Control.Machines.Machines(d.Control.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Machines in %s: %w", d.Control.Where(), err)
	}

	for i := range list.Items {
		machines = append(machines, types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name})
	}

	return machines, nil
}

// machineName returns the name of a Machine that is given alone or, as kubectl writes it, with its kind.
func machineName(given string) (string, error) {
	kind, name, found := strings.Cut(given, "/")

	switch {
	case !found:
		return given, nil
	case !slices.Contains([]string{"machine", "machines", "mc", "machine.machine.sapcloud.io", "machines.machine.sapcloud.io"}, strings.ToLower(kind)):
		return "", fmt.Errorf("%q is not a Machine; specify a name that kubectl get machines lists", given)
	default:
		return name, nil
	}
}

// diagnose diagnoses one machine.
func (d *Diagnoser) diagnose(ctx context.Context, machine types.NamespacedName) Machine {
	found, err := d.find(ctx, machine)
	if err != nil {
		return Machine{Namespace: machine.Namespace, Name: machine.Name, Result: ResultUnknown, Error: err.Error()}
	}

	result := Machine{Namespace: machine.Namespace, Name: machine.Name, Result: ResultNothingWrong, Machine: stateOf(found.machine), Evidence: []spi.Sign{}}

	if len(found.requests) > 0 {
		e := d.search(ctx, found)
		if found.overridden && !e.Found() {
			found.otherServer = otherServer(ctx, d.Kubeconfig, found.secrets.Data[apiv1alpha1.SecretKeyKubeconfig], e)
		}

		result.addExplanation(found, e, time.Now())
	}

	if found.machine != nil {
		control := &ControlState{
			Controllers: d.controllersIn(ctx, found.namespace),
			Secrets:     append([]controlcluster.Secret{}, found.secrets.States...),
			LastUpdate:  lastUpdate(found.machine),
		}
		result.addControl(control, found.controlCauses(control, time.Now()))
	}

	return result
}

func (d *Diagnoser) controllersIn(ctx context.Context, namespace string) []controlcluster.Controller {
	if d.controllers[namespace] == nil {
		d.controllers[namespace] = d.Control.In(namespace).Controllers(ctx)
	}

	return d.controllers[namespace]
}

// find reads a Machine or, if there is none, the classes that it may have had.
func (d *Diagnoser) find(ctx context.Context, name types.NamespacedName) (*foundMachine, error) {
	found := &foundMachine{namespace: name.Namespace, overridden: d.Kubeconfig != nil}

	if d.Control == nil {
		found.requests = []kubevirt.ExplainRequest{d.request(nameOnly(name.Name), d.class, nil)}

		return found, nil
	}

	control := d.Control.In(name.Namespace)

	switch machine, err := control.Machines.Machines(control.Namespace).Get(ctx, name.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return found, d.findClasses(ctx, control, name.Name, found)
	case err != nil:
		return nil, fmt.Errorf("get Machine %s: %w", name, err)
	default:
		found.machine = machine

		return found, d.findClass(ctx, control, found)
	}
}

// findClass reads the objects that a Machine refers to. A missing object is a cause; an
// unreadable one is an error.
func (d *Diagnoser) findClass(ctx context.Context, control *controlcluster.Cluster, found *foundMachine) error {
	machine := found.machine

	class, err := control.Machines.MachineClasses(found.namespace).Get(ctx, machine.Spec.Class.Name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get MachineClass %s/%s of the Machine: %w", found.namespace, machine.Spec.Class.Name, err)
	}

	found.class = class
	found.secrets = control.SecretsOf(ctx, class, found.namespace)

	switch err := found.secrets.Err(class, controlcluster.SecretNotRead); {
	case found.overridden: // These credentials may have fewer permissions than the driver's.
		machine = nameOnly(machine.Name)
		machine.Spec.ProviderID = found.machine.Spec.ProviderID
		machine.DeletionTimestamp = found.machine.DeletionTimestamp
	case err != nil:
		return err
	case found.secretCause() != nil:
		return nil // The driver could not read the provider cluster either.
	}

	found.requests = []kubevirt.ExplainRequest{d.request(machine, class, found.secrets.Data)}

	return nil
}

// findClasses returns the MachineClasses that a deleted Machine may have had: one for each
// combination of tags and kubeconfig.
func (d *Diagnoser) findClasses(ctx context.Context, control *controlcluster.Cluster, name string, found *foundMachine) error {
	list, err := control.Machines.MachineClasses(found.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list MachineClasses in %s: %w", found.namespace, err)
	}

	for i := range list.Items {
		var data map[string][]byte

		if !found.overridden {
			if data, err = control.SecretData(ctx, &list.Items[i]); err != nil {
				found.unread = append(found.unread, err.Error())

				continue
			}
		}

		request := d.request(nameOnly(name), &list.Items[i], data)
		if !slices.ContainsFunc(found.requests, func(other kubevirt.ExplainRequest) bool { return sameAddress(&request, &other) }) {
			found.requests = append(found.requests, request)
		}
	}

	if len(found.requests) == 0 {
		return fmt.Errorf("the Machine %s/%s does not exist, and no MachineClass refers to a provider cluster to search%s; "+
			"set --provider-kubeconfig and --cluster", found.namespace, name, notRead(found.unread))
	}

	return nil
}

func sameAddress(a, b *kubevirt.ExplainRequest) bool {
	return machineclass.Identity(a.MachineClass) == machineclass.Identity(b.MachineClass) &&
		bytes.Equal(a.Secret.Data[apiv1alpha1.SecretKeyKubeconfig], b.Secret.Data[apiv1alpha1.SecretKeyKubeconfig])
}

func (d *Diagnoser) request(machine *v1alpha1.Machine, class *v1alpha1.MachineClass, data map[string][]byte) kubevirt.ExplainRequest {
	if d.Kubeconfig != nil {
		data = map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: d.Kubeconfig}
	}

	return kubevirt.ExplainRequest{Machine: machine, MachineClass: class, Secret: &corev1.Secret{Data: data}}
}

// otherServer says that the kubeconfig in the Secret of a class leads, or may lead, to another cluster than
// --provider-kubeconfig, on which nothing was found; empty if both lead to the same.
func otherServer(ctx context.Context, override, inSecret []byte, e *kubevirt.Explanation) string {
	clients := providerapi.NewCache(providerapi.Options{QPS: diagnoseQPS, Burst: diagnoseQPS})
	given, err := clients.For(override)
	named, secretErr := clients.For(inSecret)

	if err != nil || secretErr != nil || given.Server == named.Server {
		return ""
	}

	const text = "nothing of the machine was found on server %s of --provider-kubeconfig, which %s the cluster of the MachineClass's Secret, %s: " +
		"set --provider-kubeconfig to a kubeconfig of that cluster, or remove it"

	switch same, known := providerapi.SameCluster(ctx, given, named); {
	case same:
		return ""
	case known || e.Cause == nil:
		return fmt.Sprintf(text, given.Server, "is not", named.Server)
	default:
		return fmt.Sprintf(text+"; if it is that cluster, the cause is %s: %s", given.Server, "may not be", named.Server, e.Cause.Err.Reason, e.Cause.Err.Message)
	}
}

// nameOnly returns a Machine of which only the name is known.
func nameOnly(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// search looks for the machine on each provider cluster where it may be, until it finds one of its
// objects, or a foreign object with its name. If there are several clusters, a cluster that cannot
// be read is listed in unread, but is not the cause: the machine may be on another one.
func (d *Diagnoser) search(ctx context.Context, found *foundMachine) (last *kubevirt.Explanation) {
	alone := len(found.requests) == 1 && len(found.unread) == 0

	for i := range found.requests {
		e := kubevirt.Explain(ctx, d.explainer, &found.requests[i], d.Allowed)

		switch {
		case e.Found() || alone:
			return e
		case e.Machine == nil:
			found.unread = append(found.unread, fmt.Sprintf("with MachineClass %s: %s: %s",
				found.requests[i].MachineClass.Name, e.Cause.Err.Reason, e.Cause.Err.Message))
		}

		if last == nil || e.Machine != nil {
			last = e
		}
	}

	return last
}
