// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagevector contains the images that the extension deploys. The control plane webhook, and the controllers of
// ControlPlanes and Bastions read it. It must not depend on their containers.
package imagevector

import (
	_ "embed"
	"os"

	"github.com/gardener/gardener/pkg/utils/imagevector"
	"k8s.io/apimachinery/pkg/util/runtime"
)

// The names of the images.
const (
	// MachineControllerManagerProviderKubeVirt is the driver.
	MachineControllerManagerProviderKubeVirt = "machine-controller-manager-provider-kubevirt"
	// CSIDriver is KubeVirt's CSI driver: its controller and its node plugin.
	CSIDriver = "csi-driver"

	// ProviderProxy is the image of the extension, which has the loopback proxy and cloud-controller-manager.
	ProviderProxy = "provider-proxy"

	// Bastion is the disk of the virtual machines of Bastions.
	Bastion = "bastion"

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

// OwnImageEnv is the environment variable with the image of the extension's own pod, set by the chart.
// The loopback proxy and cloud-controller-manager run from the same image, wherever a landscape stores it.
const OwnImageEnv = "EXTENSION_IMAGE"

// read returns the images of this version, with those that the environment variables override.
func read() imagevector.ImageVector {
	images, bundle, err := imagevector.Read(images)
	runtime.Must(err)

	images = withOwnImage(images, os.Getenv(OwnImageEnv))

	images, _, err = imagevector.WithEnvOverride(images, bundle, imagevector.OverrideEnv)
	runtime.Must(err)

	return images
}

// withOwnImage replaces the image of these programs, unless the extension does not know its own.
func withOwnImage(images imagevector.ImageVector, own string) imagevector.ImageVector {
	for _, image := range images {
		if image.Name == ProviderProxy && own != "" {
			image.Ref = &own
			image.Repository = nil
			image.Tag = nil
		}
	}

	return images
}

// ImageVector returns the images.
func ImageVector() imagevector.ImageVector { return vector }
