// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane/genericactuator"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// values are the values of a chart.
type values = map[string]any

// valuesProvider provides the values of the charts.
type valuesProvider struct {
	genericactuator.NoopValuesProvider

	allowInternalServers bool
}

// GetControlPlaneChartValues implements genericactuator.ValuesProvider.
func (p *valuesProvider) GetControlPlaneChartValues(
	_ context.Context, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
	certificates secretsmanager.Reader, _ map[string]string, scaledDown bool,
) (map[string]any, error) {
	ccm, err := cloudControllerManager(cp, cluster)
	if err != nil {
		return nil, err
	}

	server, found := certificates.Get(serverName)
	if !found {
		return nil, fmt.Errorf("the Secret of the certificate %s was not found", serverName)
	}

	ccm["serverSecret"] = server.Name

	driver, err := csi(cp, cluster)
	if err != nil {
		return nil, err
	}

	monitoring, err := driverMonitoring()
	if err != nil {
		return nil, err
	}

	return values{
		"replicas":                         extensionscontroller.GetControlPlaneReplicas(cluster, scaledDown, 1),
		"clusterName":                      cluster.Shoot.Status.TechnicalID,
		"genericTokenKubeconfigSecretName": extensionscontroller.GenericTokenKubeconfigSecretNameFromCluster(cluster),
		"cloudControllerManager":           ccm,
		"csi":                              driver,
		"machineController":                monitoring,
		"providerProxy":                    values{"mountPath": proxyMountPath, "allowInternalServers": p.allowInternalServers},
	}, nil
}

// cloudControllerManager returns the values of cloud-controller-manager.
func cloudControllerManager(cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) (values, error) {
	config, err := controlPlaneConfig(cp, cluster)
	if err != nil {
		return nil, err
	}

	profile, err := cloudProfileConfig(cluster)
	if err != nil {
		return nil, err
	}

	cloud, err := cloudConfig(config, profile, cp, cluster)
	if err != nil {
		return nil, err
	}

	return values{
		"providerSecret": identity.SecretName(kubevirt.CloudControllerManagerName), "config": cloud, "featureGates": featureGates(config), "tlsCipherSuites": kubernetesutils.TLSCipherSuites,
	}, nil
}

// csi returns the values of KubeVirt's CSI driver.
func csi(cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) (values, error) {
	profile, err := cloudProfileConfig(cluster)
	if err != nil {
		return nil, err
	}

	enforcement, err := storageClassEnforcement(profile)
	if err != nil {
		return nil, err
	}

	namespace, err := providerNamespace(cp)
	if err != nil {
		return nil, err
	}

	return values{
		"providerSecret": identity.SecretName(kubevirt.CSIControllerName), "namespace": namespace, "storageClassEnforcement": enforcement,
		"labels": kubevirt.LabelShoot + "=" + cluster.Shoot.Status.TechnicalID,
	}, nil
}

// GetStorageClassesChartValues implements genericactuator.ValuesProvider.
func (*valuesProvider) GetStorageClassesChartValues(
	_ context.Context, _ *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
) (map[string]any, error) {
	profile, err := cloudProfileConfig(cluster)
	if err != nil {
		return nil, err
	}

	return values{"classes": storageClasses(profile)}, nil
}

// controlPlaneConfig reads the ControlPlaneConfig of the Shoot. The spec of a Shoot that is being deleted
// can no longer be corrected: what is valid of it is used, so that the programs run until load balancers
// and volumes are deleted.
func controlPlaneConfig(cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) (*api.ControlPlaneConfig, error) {
	config := &api.ControlPlaneConfig{}

	errs := api.Decode(cp.Spec.ProviderConfig, field.NewPath("spec", "provider", "controlPlaneConfig"), config)
	if len(errs) > 0 && cluster.Shoot.DeletionTimestamp == nil {
		return nil, v1beta1helper.NewErrorWithCodes(errs.ToAggregate(), gardencorev1beta1.ErrorConfigurationProblem)
	}

	return config, nil
}

// cloudProfileConfig reads the CloudProfileConfig. Its errors are retryable: the operator corrects
// them in the CloudProfile, without a change of the Shoot.
func cloudProfileConfig(cluster *extensionscontroller.Cluster) (*api.CloudProfileConfig, error) {
	path := field.NewPath("CloudProfile", "spec", "providerConfig")
	config := &api.CloudProfileConfig{}

	errs := api.Decode(cluster.CloudProfile.Spec.ProviderConfig, path, config)
	errs = append(errs, validation.ValidateVolumeClasses(config.VolumeClasses, path.Child("volumeClasses"))...)
	errs = append(errs, validation.ValidateOfferedLoadBalancer(config.LoadBalancer, path.Child("loadBalancer"))...)

	if len(errs) > 0 {
		return nil, v1beta1helper.NewErrorWithCodes(errs.ToAggregate(), gardencorev1beta1.ErrorRetryableConfigurationProblem)
	}

	return config, nil
}

// providerNamespace returns the namespace of the machines in the provider cluster.
func providerNamespace(cp *extensionsv1alpha1.ControlPlane) (string, error) {
	status := &api.InfrastructureStatus{}
	_ = api.Decode(cp.Spec.InfrastructureProviderStatus, nil, status) // A newer version may have written it.

	if status.Namespace == "" {
		return "", errors.New("infrastructureProviderStatus has no namespace: reconcile the Infrastructure")
	}

	return status.Namespace, nil
}
