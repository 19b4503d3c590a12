package preflight

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// checkNetworks looks for the definitions of the machine's Multus networks.
func (c *classSite) checkNetworks(ctx context.Context) []Result {
	var results []Result

	for i, network := range c.vm.Spec.Template.Spec.Networks {
		if network.Multus == nil {
			continue
		}

		// As KubeVirt reads it (pkg/network/vmispec).
		namespace, name, named := strings.Cut(network.Multus.NetworkName, "/")
		if !named {
			namespace, name = c.namespace, network.Multus.NetworkName
		}

		results = append(results, c.checkReference(ctx, checkNetwork, &reference{
			kind: kindNetwork, namespace: namespace, name: name, field: c.field(fmt.Sprintf("spec.template.spec.networks[%d].multus.networkName", i)),
		}))
	}

	return results
}

const (
	instancetypeField = "providerSpec.virtualMachineTemplate.spec.instancetype.name"
	preferenceField   = "providerSpec.virtualMachineTemplate.spec.preference.name"
)

// checkInstancetype looks for the machine's instancetype. Without one, its size is in the class.
func (c *classSite) checkInstancetype(ctx context.Context) []Result {
	m := c.vm.Spec.Instancetype
	if m == nil || m.Name == "" { // Or inferred from a volume, which is for KubeVirt to do.
		return nil
	}

	clustered := strings.EqualFold(m.Kind, "") || strings.EqualFold(m.Kind, instancetypeapi.ClusterSingularResourceName) ||
		strings.EqualFold(m.Kind, instancetypeapi.ClusterPluralResourceName)

	return []Result{c.checkMatcher(ctx, checkInstancetype, instancetypeField, m.Name, clustered,
		instancetypeapi.ClusterPluralResourceName, instancetypeapi.PluralResourceName)}
}

// checkPreference looks for the machine's preference.
func (c *classSite) checkPreference(ctx context.Context) []Result {
	m := c.vm.Spec.Preference
	if m == nil || m.Name == "" {
		return nil
	}

	clustered := strings.EqualFold(m.Kind, "") || strings.EqualFold(m.Kind, instancetypeapi.ClusterSingularPreferenceResourceName) ||
		strings.EqualFold(m.Kind, instancetypeapi.ClusterPluralPreferenceResourceName)

	return []Result{c.checkMatcher(ctx, checkPreference, preferenceField, m.Name, clustered,
		instancetypeapi.ClusterPluralPreferenceResourceName, instancetypeapi.PluralPreferenceResourceName)}
}

// checkMatcher looks for what KubeVirt would find (pkg/instancetype/find): of the cluster, unless the kind says otherwise.
func (c *classSite) checkMatcher(ctx context.Context, check, field, name string, clustered bool, ofCluster, ofNamespace string) Result {
	namespace, resource := c.namespace, ofNamespace
	if clustered {
		namespace, resource = "", ofCluster
	}

	v, kubectl := c.view(), resource+"."+instancetypeapi.GroupName
	subject, list := kubectl+" "+name, "kubectl get "+kubectl

	if !clustered {
		subject, list = kubectl+" "+namespace+"/"+name, "kubectl --namespace "+namespace+" get "+kubectl
	}

	_, err := ask(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		of := schema.GroupVersionResource{Group: instancetypeapi.GroupName, Version: instancetypev1beta1.SchemeGroupVersion.Version, Resource: resource}

		return c.looker.clients.Metadata.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	})

	switch {
	case err == nil:
		return v.ok(check, subject, "exists")
	case absent(err):
		return v.fail(check, subject, "does not exist", "create it, or change "+field+"; "+list+" shows what there is")
	default:
		return v.unseen(check, subject, err, list+" "+name)
	}
}

// instancetype returns what an instancetype gives to the machine; nil if it has none, or it cannot be read, which was said.
func (c *classSite) instancetype(ctx context.Context) *instancetypev1beta1.VirtualMachineInstancetypeSpec {
	m := c.vm.Spec.Instancetype
	if m == nil || m.Name == "" {
		return nil
	}

	client := c.looker.clients.KubeVirt.InstancetypeV1beta1()

	if strings.EqualFold(m.Kind, instancetypeapi.SingularResourceName) || strings.EqualFold(m.Kind, instancetypeapi.PluralResourceName) {
		found, err := ask(ctx, func(ctx context.Context) (*instancetypev1beta1.VirtualMachineInstancetype, error) {
			return client.VirtualMachineInstancetypes(c.namespace).Get(ctx, m.Name, metav1.GetOptions{})
		})
		if err != nil {
			return nil
		}

		return &found.Spec
	}

	found, err := ask(ctx, func(ctx context.Context) (*instancetypev1beta1.VirtualMachineClusterInstancetype, error) {
		return client.VirtualMachineClusterInstancetypes().Get(ctx, m.Name, metav1.GetOptions{})
	})
	if err != nil {
		return nil
	}

	return &found.Spec
}
