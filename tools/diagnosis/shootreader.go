// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

const (
	// cloudProviderSecret is the Secret in a Shoot's namespace of the seed with the kubeconfig of the
	// provider cluster.
	cloudProviderSecret = "cloudprovider"
	// volumesLabel is the label of the DataVolumes that the CSI driver creates for a Shoot, with its
	// technical ID (extension/pkg/kubevirt).
	volumesLabel = "kubevirt.provider.extensions.gardener.cloud/cluster"
)

// The kinds of a Shoot's resources in the seed, in the order in which gardenlet reconciles them.
var extensionKinds = []struct{ kind, resource string }{
	{kindInfrastructure, "infrastructures"}, {kindControlPlane, "controlplanes"}, {kindWorker, "workers"},
}

const (
	kindShoot          = "Shoot"
	kindInfrastructure = "Infrastructure"
	kindControlPlane   = "ControlPlane"
	kindWorker         = "Worker"
)

func extensions(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: resource}
}

// ShootClusters gives access to the clusters with the objects of a Shoot.
type ShootClusters struct {
	// Garden is the namespace of the Shoot in the garden; nil to read only the seed.
	Garden *controlcluster.Cluster
	// Seed returns the diagnoser for the namespace of the Shoot in its seed; nil to read only the garden.
	Seed func(technicalID string) (*Diagnoser, error)
}

// DiagnoseShoot diagnoses a Shoot: a technical ID or, with a garden, NAMESPACE/NAME.
func DiagnoseShoot(ctx context.Context, shoot string, clusters ShootClusters) (*Shoot, error) {
	d := &Shoot{Shoot: shoot, Links: []Link{}, Machines: []Machine{}}
	technicalID := shoot

	if clusters.Garden != nil {
		_, name, _ := strings.Cut(shoot, "/")

		var err error
		if technicalID, err = d.readGarden(ctx, clusters.Garden, name); err != nil {
			return nil, err
		}
	}

	// gardener-scheduler assigns a seed and then a technical ID to a Shoot.
	if clusters.Seed != nil && technicalID != "" {
		machines, err := clusters.Seed(technicalID)
		if err != nil {
			return nil, err
		}

		if err := d.readSeed(ctx, machines); err != nil {
			return nil, err
		}
	}

	d.conclude()
	output.Sanitize(d)

	return d, nil
}

// readGarden reads the Shoot in the garden, and returns its technical ID; empty if it is not scheduled.
func (d *Shoot) readGarden(ctx context.Context, garden *controlcluster.Cluster, name string) (technicalID string, _ error) {
	shoots := schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}

	found, err := garden.Dynamic.Resource(shoots).Namespace(garden.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get Shoot %s/%s: %w; --kubeconfig must be for the garden if --shoot is NAMESPACE/NAME", garden.Namespace, name, err)
	}

	shoot, err := decodeObject(kindShoot, found)
	if err != nil {
		return "", err
	}

	d.project = garden.Namespace
	d.name = name
	d.addShoot(shoot)

	return shoot.Status.TechnicalID, nil
}

// readSeed reads all that a seed has of a Shoot.
func (d *Shoot) readSeed(ctx context.Context, machines *Diagnoser) error {
	seed := machines.Control
	d.seed = true
	d.Namespace = seed.Namespace

	if err := d.readCluster(ctx, seed); err != nil {
		return err
	}

	for _, kind := range extensionKinds {
		if err := d.readExtension(ctx, seed, kind.kind, kind.resource); err != nil {
			return err
		}
	}

	if err := d.readMachines(ctx, machines); err != nil {
		return err
	}

	d.readVolumes(ctx, machines)

	return nil
}

// readCluster reads the Cluster, in which gardenlet keeps a copy of the Shoot.
func (d *Shoot) readCluster(ctx context.Context, seed *controlcluster.Cluster) error {
	cluster, err := seed.Dynamic.Resource(extensions("clusters")).Get(ctx, seed.Namespace, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("get Cluster %s: %w; --shoot without a slash is a technical ID, such as shoot--foo--bar, in the seed of --kubeconfig; "+
			"for the garden, write --shoot=NAMESPACE/NAME", seed.Namespace, err)
	case err != nil:
		return fmt.Errorf("get Cluster %s: %w", seed.Namespace, err)
	case d.name != "": // The garden's Shoot is newer.
		return nil
	}

	// Without these names, only the commands for the garden have placeholders.
	d.project, _, _ = unstructured.NestedString(cluster.Object, "spec", "shoot", "metadata", "namespace")
	d.name, _, _ = unstructured.NestedString(cluster.Object, "spec", "shoot", "metadata", "name")

	return nil
}

// readExtension reads the resources of one kind; there is one of each kind.
func (d *Shoot) readExtension(ctx context.Context, seed *controlcluster.Cluster, kind, resource string) error {
	list, err := seed.Dynamic.Resource(extensions(resource)).Namespace(seed.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s in namespace %s of the seed: %w", resource, seed.Namespace, err)
	}

	if len(list.Items) == 0 {
		d.Links = append(d.Links, Link{Kind: kind, State: "gardenlet has not created it"})
	}

	for i := range list.Items {
		object, err := decodeObject(kind, &list.Items[i])
		if err != nil {
			return err
		}

		d.addExtension(object)
	}

	return nil
}

// readMachines diagnoses the MachineDeployments and Machines.
func (d *Shoot) readMachines(ctx context.Context, machines *Diagnoser) error {
	deployments, err := machines.Control.Machines.MachineDeployments(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list MachineDeployments in namespace %s of the seed: %w", d.Namespace, err)
	}

	list, err := machines.Control.Machines.Machines(machines.Control.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Machines in namespace %s of the seed: %w", d.Namespace, err)
	}

	wanted := 0

	for i := range deployments.Items {
		d.addDeployment(&deployments.Items[i])
		wanted += int(deployments.Items[i].Spec.Replicas)
	}

	for i := range list.Items {
		d.Machines = append(d.Machines, machines.diagnose(ctx, types.NamespacedName{Namespace: d.Namespace, Name: list.Items[i].Name}))
	}

	if wanted > 0 && len(list.Items) == 0 {
		d.addControllers(machines.controllersIn(ctx, d.Namespace), time.Now())
	}

	return nil
}

// readVolumes diagnoses the volumes of the Shoot's pods. An error is not a cause: nothing else depends
// on these volumes.
func (d *Shoot) readVolumes(ctx context.Context, machines *Diagnoser) {
	kubeconfig := machines.Kubeconfig
	if kubeconfig == nil {
		s := machines.Control.Secret(ctx, d.Namespace, cloudProviderSecret)
		if kubeconfig = s.Data[apiv1alpha1.SecretKeyKubeconfig]; len(kubeconfig) == 0 {
			d.unread("volumes: Secret " + s.Path() + " has no kubeconfig")

			return
		}
	}

	found, err := machines.explainer.ExplainVolumes(ctx, &spi.ExplainVolumesInput{
		Kubeconfig: kubeconfig,
		Labels:     map[string]string{volumesLabel: d.Namespace},
		Cluster:    d.Namespace,
	})
	if err != nil {
		d.unread("volumes: " + spi.AsError(err).Message)

		return
	}

	d.addVolumes(found, time.Now())
}

func (d *Shoot) unread(what string) {
	d.Unread = append(d.Unread, what)
}

// decodeObject reads the fields of one of Gardener's objects.
func decodeObject(kind string, from *unstructured.Unstructured) (*gardenerObject, error) {
	object := &gardenerObject{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, object); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", kind, from.GetNamespace(), from.GetName(), err)
	}

	object.Kind = kind

	return object, nil
}
