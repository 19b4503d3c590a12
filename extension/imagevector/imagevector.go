// Package imagevector contains the images that the extension deploys. The control plane webhook and
// the ControlPlane controller read it. It must not depend on their containers.
package imagevector

import (
	_ "embed"

	"github.com/gardener/gardener/pkg/utils/imagevector"
	"k8s.io/apimachinery/pkg/util/runtime"
)

// The names of the images.
const (
	// MachineControllerManagerProviderKubeVirt is the driver.
	MachineControllerManagerProviderKubeVirt = "machine-controller-manager-provider-kubevirt"
	// CloudControllerManager is KubeVirt's cloud-controller-manager.
	CloudControllerManager = "cloud-controller-manager"
	// CSIDriver is KubeVirt's CSI driver: its controller and its node plugin.
	CSIDriver = "csi-driver"

	CSIProvisioner         = "csi-provisioner"
	CSIAttacher            = "csi-attacher"
	CSISnapshotter         = "csi-snapshotter"
	CSIResizer             = "csi-resizer"
	CSISnapshotController  = "csi-snapshot-controller"
	CSINodeDriverRegistrar = "csi-node-driver-registrar"
	CSILivenessProbe       = "csi-liveness-probe"
)

//go:embed images.yaml
var images []byte

var vector = read()

// read returns the images of this version, with those that the environment variable overrides.
func read() imagevector.ImageVector {
	images, bundle, err := imagevector.Read(images)
	runtime.Must(err)

	images, _, err = imagevector.WithEnvOverride(images, bundle, imagevector.OverrideEnv)
	runtime.Must(err)

	return images
}

// ImageVector returns the images.
func ImageVector() imagevector.ImageVector { return vector }
