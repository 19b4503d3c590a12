package preflight

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// checkNetworks checks that the definitions of the machine's Multus networks exist.
func (c *classChecker) checkNetworks(ctx context.Context) []Result {
	var results []Result

	for i, network := range c.vm.Spec.Template.Spec.Networks {
		if network.Multus == nil {
			continue
		}

		// Parsed as in KubeVirt (pkg/network/vmispec).
		namespace, name, named := strings.Cut(network.Multus.NetworkName, "/")
		if !named {
			namespace, name = c.namespace, network.Multus.NetworkName
		}

		results = append(results, c.checkReference(ctx, checkNetwork, &reference{
			kind: kindNetwork, namespace: namespace, name: name, field: c.field(fmt.Sprintf("spec.template.spec.networks[%d]", i)) + ".name",
		}))
	}

	return results
}

const virtualMachineField = "providerSpec.virtualMachineTemplate.spec."

// matcher is a class's reference to an instancetype or a preference.
type matcher struct {
	check, field string
	name, kind   string
	// ofCluster and ofNamespace are the plurals of the cluster-wide and the namespaced kind.
	ofCluster, ofNamespace string
}

// namespaced reports whether the matcher refers to the namespaced kind. KubeVirt accepts singular
// and plural, ignoring case, and defaults to the cluster-wide kind (pkg/instancetype/find).
func (m *matcher) namespaced() bool {
	return strings.EqualFold(m.kind, m.ofNamespace) || strings.EqualFold(m.kind, strings.TrimSuffix(m.ofNamespace, "s"))
}

// checkInstancetype checks that the machine's instancetype exists.
// Without one, the class contains the size.
func (c *classChecker) checkInstancetype(ctx context.Context) []Result {
	m := c.vm.Spec.Instancetype
	if m == nil || m.Name == "" { // An empty name is inferred from a volume by KubeVirt.
		return nil
	}

	return []Result{c.checkMatcher(ctx, &matcher{
		check: checkInstancetype, field: virtualMachineField + "instancetype.name", name: m.Name, kind: m.Kind,
		ofCluster: instancetypeapi.ClusterPluralResourceName, ofNamespace: instancetypeapi.PluralResourceName,
	})}
}

// checkPreference checks that the machine's preference exists.
func (c *classChecker) checkPreference(ctx context.Context) []Result {
	m := c.vm.Spec.Preference
	if m == nil || m.Name == "" {
		return nil
	}

	return []Result{c.checkMatcher(ctx, &matcher{
		check: checkPreference, field: virtualMachineField + "preference.name", name: m.Name, kind: m.Kind,
		ofCluster: instancetypeapi.ClusterPluralPreferenceResourceName, ofNamespace: instancetypeapi.PluralPreferenceResourceName,
	})}
}

// checkMatcher checks that the object which KubeVirt would look up exists.
func (c *classChecker) checkMatcher(ctx context.Context, m *matcher) Result {
	v, namespace, resource := c.view(), "", m.ofCluster
	kind := resource + "." + instancetypeapi.GroupName
	subject, list := kind+" "+m.name, kubectl("get "+kind)

	if m.namespaced() {
		namespace, resource = c.namespace, m.ofNamespace
		kind = resource + "." + instancetypeapi.GroupName
		subject, list = kind+" "+namespace+"/"+m.name, kubectlIn(namespace, "get "+kind)
	}

	_, err := ask(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		of := instancetypev1beta1.SchemeGroupVersion.WithResource(resource)

		return c.viewer.clients.Metadata.Resource(of).Namespace(namespace).Get(ctx, m.name, metav1.GetOptions{})
	})

	switch {
	case err == nil:
		return v.ok(m.check, subject, "exists")
	case absent(err):
		return v.fail(m.check, subject, "does not exist", "create it, or change "+m.field+" to an existing one: "+list)
	default:
		return v.notChecked(m.check, subject, err, list+" "+quoted(m.name))
	}
}

// instancetype returns the spec of the machine's instancetype; nil if there is none or it cannot be
// read, which checkInstancetype reports.
func (c *classChecker) instancetype(ctx context.Context) *instancetypev1beta1.VirtualMachineInstancetypeSpec {
	m := c.vm.Spec.Instancetype
	if m == nil || m.Name == "" {
		return nil
	}

	client := c.viewer.clients.KubeVirt.InstancetypeV1beta1()

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
