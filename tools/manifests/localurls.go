// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// localURLWarnings returns warnings about addresses that mean another host where they are used than where the
// manifest was written: those of images that pods import, and of the guest's DNS servers.
func localURLWarnings(spec *apiv1alpha1.ProviderSpec) []validation.Warning {
	var warnings []validation.Warning

	root := field.NewPath("providerSpec")

	for path, volume := range spec.DataVolumes(root) {
		kind, url := importURL(ptr.Deref(volume.Source, cdiv1beta1.DataVolumeSource{}))
		if local := (*kubeconfig.InternalServerError)(nil); errors.As(kubeconfig.CheckLocalServer(url), &local) {
			warnings = append(warnings, validation.Warning{
				Field:  path.Child("source", kind, "url").String(),
				Detail: fmt.Sprintf("has %s, which for the pod that imports it means another host than for you; use an address that it reaches", local.Kind),
			})
		}
	}

	if spec.DNSConfig != nil {
		for i, server := range spec.DNSConfig.Nameservers {
			if address, err := netip.ParseAddr(server); err == nil && (address.IsLoopback() || address.IsUnspecified()) {
				warnings = append(warnings, validation.Warning{
					Field:  root.Child("dnsConfig", "nameservers").Index(i).String(),
					Detail: "is the guest's own address; use one of a DNS server that the guest reaches",
				})
			}
		}
	}

	return warnings
}

// importURL returns the kind and the URL of a source that pods import. Images that nodes pull may come from a registry
// on each node.
func importURL(source cdiv1beta1.DataVolumeSource) (kind, url string) {
	switch {
	case source.HTTP != nil:
		return "http", source.HTTP.URL
	case source.Registry != nil && ptr.Deref(source.Registry.PullMethod, "") != cdiv1beta1.RegistryPullNode:
		return "registry", ptr.Deref(source.Registry.URL, "")
	case source.S3 != nil:
		return "s3", source.S3.URL
	case source.GCS != nil:
		return "gcs", source.GCS.URL
	case source.Imageio != nil:
		return "imageio", source.Imageio.URL
	case source.VDDK != nil:
		return "vddk", source.VDDK.URL
	default:
		return "", ""
	}
}
