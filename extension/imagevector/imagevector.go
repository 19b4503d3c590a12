// Package imagevector contains the images that the extension deploys. The control plane webhook
// reads it. It must not depend on their containers.
package imagevector

import (
	_ "embed"

	"github.com/gardener/gardener/pkg/utils/imagevector"
	"k8s.io/apimachinery/pkg/util/runtime"
)

// MachineControllerManagerProviderKubeVirt is the name of the driver's image.
const MachineControllerManagerProviderKubeVirt = "machine-controller-manager-provider-kubevirt"

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
