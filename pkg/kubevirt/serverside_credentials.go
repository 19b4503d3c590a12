package kubevirt

import (
	"context"
	"maps"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Kubeconfigs provides the kubeconfigs of provider clusters.
type Kubeconfigs interface {
	// For returns the kubeconfig for a cluster, which is the value of the tag v1alpha1.TagCluster.
	For(cluster string) ([]byte, error)
}

// serverSideCredentials is a driver with its own credentials.
type serverSideCredentials struct {
	driver.Driver

	kubeconfigs Kubeconfigs
}

// WithKubeconfigs returns a driver with server-side credentials: each call uses the kubeconfig of
// the cluster in the class's tags. A request with a kubeconfig is refused, because the driver would
// not use it.
func WithKubeconfigs(d driver.Driver, kubeconfigs Kubeconfigs) driver.Driver {
	return &serverSideCredentials{Driver: d, kubeconfigs: kubeconfigs}
}

// complete returns a Secret with the kubeconfig. It adds none for a class that the driver refuses,
// or whose machines it does not list.
func (c *serverSideCredentials) complete(class *v1alpha1.MachineClass, secret *corev1.Secret) (*corev1.Secret, error) {
	if class == nil || !machineclass.IsOurs(class) || !machineclass.Identity(class).Valid() {
		return secret, nil
	}

	completed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: machineclass.ServerSideSource}, Data: map[string][]byte{}}
	if secret != nil {
		maps.Copy(completed.Data, secret.Data)
	}

	if len(completed.Data[apiv1alpha1.SecretKeyKubeconfig]) > 0 {
		return nil, spi.WithRemedy(invalid("MachineClass %s: %s: this driver reads kubeconfigs from its --kubeconfig-dir and refuses those in requests",
			class.Name, machineclass.SourceOf(class, secret)), "remove the key "+apiv1alpha1.SecretKeyKubeconfig+" from the Secret")
	}

	kubeconfig, err := c.kubeconfigs.For(machineclass.Identity(class).Cluster)
	if err != nil {
		return nil, spi.Errorf(spi.ErrPrecondition, "credentials of the driver: %w", err)
	}

	completed.Data[apiv1alpha1.SecretKeyKubeconfig] = kubeconfig

	return completed, nil
}

// CreateMachine implements driver.Driver.
func (c *serverSideCredentials) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	if req == nil {
		return c.Driver.CreateMachine(ctx, req)
	}

	secret, err := c.complete(req.MachineClass, req.Secret)
	if err != nil {
		return nil, statusFrom(err, "")
	}

	return c.Driver.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: req.Machine, MachineClass: req.MachineClass, Secret: secret})
}

// InitializeMachine implements driver.Driver.
func (c *serverSideCredentials) InitializeMachine(
	ctx context.Context, req *driver.InitializeMachineRequest,
) (*driver.InitializeMachineResponse, error) {
	if req == nil {
		return c.Driver.InitializeMachine(ctx, req)
	}

	secret, err := c.complete(req.MachineClass, req.Secret)
	if err != nil {
		return nil, statusFrom(err, "")
	}

	return c.Driver.InitializeMachine(ctx, &driver.InitializeMachineRequest{Machine: req.Machine, MachineClass: req.MachineClass, Secret: secret})
}

// DeleteMachine implements driver.Driver.
func (c *serverSideCredentials) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	if req == nil {
		return c.Driver.DeleteMachine(ctx, req)
	}

	secret, err := c.complete(req.MachineClass, req.Secret)
	if err != nil {
		return nil, statusFrom(err, "")
	}

	return c.Driver.DeleteMachine(ctx, &driver.DeleteMachineRequest{Machine: req.Machine, MachineClass: req.MachineClass, Secret: secret})
}

// GetMachineStatus implements driver.Driver.
func (c *serverSideCredentials) GetMachineStatus(
	ctx context.Context, req *driver.GetMachineStatusRequest,
) (*driver.GetMachineStatusResponse, error) {
	if req == nil {
		return c.Driver.GetMachineStatus(ctx, req)
	}

	secret, err := c.complete(req.MachineClass, req.Secret)
	if err != nil {
		return nil, statusFrom(err, "")
	}

	return c.Driver.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: req.Machine, MachineClass: req.MachineClass, Secret: secret})
}

// ListMachines implements driver.Driver.
func (c *serverSideCredentials) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	if req == nil {
		return c.Driver.ListMachines(ctx, req)
	}

	secret, err := c.complete(req.MachineClass, req.Secret)
	if err != nil {
		return nil, statusFrom(err, "")
	}

	return c.Driver.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: req.MachineClass, Secret: secret})
}
