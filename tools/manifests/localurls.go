package manifests

import (
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// localURLWarnings returns warnings about addresses that mean another host where they are used than where the
// manifest was written: those of images that pods import, and of the guest's DNS servers. Images that nodes pull
// may come from a registry on each node.
func localURLWarnings(spec *apiv1alpha1.ProviderSpec) []validation.Warning {
	const path = "providerSpec."

	warnings := localImageWarnings(path+"rootVolume", &spec.RootVolume.DataVolume)

	for i := range spec.AdditionalVolumes {
		if volume := spec.AdditionalVolumes[i].DataVolume; volume != nil {
			warnings = append(warnings, localImageWarnings(fmt.Sprintf("%sadditionalVolumes[%d].dataVolume", path, i), volume)...)
		}
	}

	if spec.DNSConfig != nil {
		for i, server := range spec.DNSConfig.Nameservers {
			if address, err := netip.ParseAddr(server); err == nil && (address.IsLoopback() || address.IsUnspecified()) {
				warnings = append(warnings, validation.Warning{
					Field:  fmt.Sprintf("%sdnsConfig.nameservers[%d]", path, i),
					Detail: "is the guest's own address; use one of a DNS server that the guest reaches",
				})
			}
		}
	}

	return warnings
}

func localImageWarnings(path string, volume *apiv1alpha1.DataVolume) []validation.Warning {
	source := volume.Source
	if source == nil {
		return nil
	}

	switch path += ".source."; {
	case source.HTTP != nil:
		return localWarning(path+"http.url", source.HTTP.URL)
	case source.Registry != nil && ptr.Deref(source.Registry.PullMethod, "") != cdiv1beta1.RegistryPullNode:
		return localWarning(path+"registry.url", ptr.Deref(source.Registry.URL, ""))
	case source.S3 != nil:
		return localWarning(path+"s3.url", source.S3.URL)
	case source.GCS != nil:
		return localWarning(path+"gcs.url", source.GCS.URL)
	case source.Imageio != nil:
		return localWarning(path+"imageio.url", source.Imageio.URL)
	case source.VDDK != nil:
		return localWarning(path+"vddk.url", source.VDDK.URL)
	default:
		return nil
	}
}

// localWarning returns a warning about a URL if its host is the one of the program that uses it.
func localWarning(path, url string) []validation.Warning {
	local := (*kubeconfig.InternalServerError)(nil)
	if !errors.As(kubeconfig.CheckLocalServer(url), &local) {
		return nil
	}

	return []validation.Warning{{
		Field: path,
		Detail: fmt.Sprintf(
			"has %s, which for the pod that imports it means another host than for you; use an address that it reaches", local.Kind),
	}}
}
