// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
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
	// ConsoleLines shows lines of guests' consoles, which may contain secrets.
	ConsoleLines bool
	Allowed      validation.Options
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
