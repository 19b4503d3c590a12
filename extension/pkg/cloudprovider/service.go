// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider/annotations"
)

// The labels of load balancers and of launcher pods, as KubeVirt's own cloud-controller-manager has them
// (kubevirt/cloud-provider-kubevirt, pkg/provider/loadbalancer.go). The driver sets those of pods.
const (
	labelCluster          = "cluster.x-k8s.io/cluster-name"
	labelRole             = "cluster.x-k8s.io/role"
	roleWorker            = "worker"
	labelServiceName      = "cluster.x-k8s.io/tenant-service-name"
	labelServiceNamespace = "cluster.x-k8s.io/tenant-service-namespace"
)

const (
	// annotationCopied has the keys of the annotations that a load balancer has from its Service, separated
	// by commas: other programs of the provider cluster set annotations, too.
	annotationCopied = annotations.Reserved + "copied-annotations"
	// annotationAddress is the address that a load balancer has from its Service: implementations of load balancers,
	// such as kube-vip, set spec.loadBalancerIP, too.
	annotationAddress = annotations.Reserved + "load-balancer-ip"
	// annotationEndpoints is set on a load balancer while it may have EndpointSlices of this program.
	annotationEndpoints = annotations.Reserved + "endpoints"
)

// errNodePorts is the error of a Service that the machines do not serve.
var errNodePorts = errors.New("the load balancer reaches the Service on node ports, which it does not have; set allocateLoadBalancerNodePorts to true")

// balancerName returns the name of the load balancer of a Service. It must not change: load balancers that exist
// are found by it.
func balancerName(service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// isLocal reports whether a load balancer sends traffic only to machines with endpoints of a Service.
func isLocal(service *corev1.Service) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// machineLabels select the launcher pods of the cluster's machines.
func (b *loadBalancers) machineLabels() map[string]string {
	return map[string]string{labelRole: roleWorker, labelCluster: b.clusterName}
}

// newBalancer returns the fields of a new load balancer that cannot change later. Only the primary IP family
// is chosen: Kubernetes chooses the second one, if the provider cluster has it.
func (b *loadBalancers) newBalancer(service *corev1.Service) *corev1.Service {
	balancer := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.provider.Namespace, Name: balancerName(service)}}
	if families := service.Spec.IPFamilies; len(families) > 0 {
		balancer.Spec.IPFamilies = slices.Clone(families[:1])
	}

	if b.config.Class != "" {
		balancer.Spec.LoadBalancerClass = &b.config.Class
	}

	return balancer
}

// desired returns the load balancer of a Service: the actual one, with the fields that the Service decides.
// All others remain as the provider cluster has set them: addresses, node ports, the health check's node
// port, labels and annotations.
func (b *loadBalancers) desired(service, actual *corev1.Service) (*corev1.Service, error) {
	desired := actual.DeepCopy()

	desired.Labels = map[string]string{}
	maps.Copy(desired.Labels, actual.Labels)
	maps.Copy(desired.Labels, b.infraLabels)
	desired.Labels[labelCluster] = b.clusterName
	desired.Labels[labelServiceName] = service.Name
	desired.Labels[labelServiceNamespace] = service.Namespace
	desired.Annotations = b.annotations(service, actual)

	spec := &desired.Spec
	spec.Type = corev1.ServiceTypeLoadBalancer
	spec.ExternalTrafficPolicy = service.Spec.ExternalTrafficPolicy
	spec.SessionAffinity = service.Spec.SessionAffinity
	spec.SessionAffinityConfig = service.Spec.SessionAffinityConfig.DeepCopy()
	spec.AllocateLoadBalancerNodePorts = service.Spec.AllocateLoadBalancerNodePorts

	if copied := actual.Annotations[annotationAddress]; service.Spec.LoadBalancerIP != "" || copied != "" && copied == spec.LoadBalancerIP {
		spec.LoadBalancerIP = service.Spec.LoadBalancerIP
	}

	// They would attract the traffic of any address of the provider cluster.
	spec.ExternalIPs = nil

	spec.IPFamilyPolicy = familyPolicy(service, actual)

	spec.Selector = b.machineLabels()
	if isLocal(service) || b.config.Selectorless {
		spec.Selector = nil
	}

	var err error
	if spec.LoadBalancerSourceRanges, err = sourceRanges(service); err != nil {
		return nil, err
	}

	spec.Ports, err = ports(service, actual)

	return desired, err
}

// familyPolicy returns the policy of a load balancer, which may have a second IP family only if its Service has: on
// that of a Service that prefers two, in a cluster with one, no node port listens. One that exists keeps both: its
// addresses could change with them.
func familyPolicy(service, actual *corev1.Service) *corev1.IPFamilyPolicy {
	policy := service.Spec.IPFamilyPolicy

	switch {
	case policy == nil:
		return actual.Spec.IPFamilyPolicy
	case len(service.Spec.IPFamilies) == 1 && len(actual.Spec.IPFamilies) <= 1:
		return ptr.To(corev1.IPFamilyPolicySingleStack)
	default:
		return ptr.To(*policy)
	}
}

// annotations returns those that the provider cluster has set, and the allowed ones of the Service. What was
// copied before, and is not in the Service any more, is removed.
func (b *loadBalancers) annotations(service, actual *corev1.Service) map[string]string {
	all := map[string]string{}
	maps.Copy(all, actual.Annotations)

	for key := range strings.SplitSeq(actual.Annotations[annotationCopied], ",") {
		delete(all, key)
	}

	var copied []string

	for key, value := range service.Annotations {
		if b.allows(key) {
			all[key] = value
			copied = append(copied, key)
		}
	}

	delete(all, annotationAddress)
	delete(all, annotationCopied)

	if service.Spec.LoadBalancerIP != "" {
		all[annotationAddress] = service.Spec.LoadBalancerIP
	}

	if len(copied) > 0 {
		slices.Sort(copied)
		all[annotationCopied] = strings.Join(copied, ",")
	}

	// Without it, EndpointSlices would not be searched; see removeEndpoints.
	if b.hasEndpoints(service) {
		all[annotationEndpoints] = "true"
	}

	return all
}

// allows reports whether a Service passes an annotation on to its load balancer.
func (b *loadBalancers) allows(key string) bool {
	return annotations.Allows(b.config.AllowedAnnotations, key) && !strings.HasPrefix(key, annotations.Reserved)
}

// refused returns the annotations of a Service that its load balancer does not get; not those of programs
// that only describe the Service in the shoot.
func (b *loadBalancers) refused(service *corev1.Service) []string {
	var keys []string

	for key := range service.Annotations {
		prefix, _, _ := strings.Cut(key, "/")
		described := slices.Contains([]string{"kubectl.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io"}, prefix) || strings.HasSuffix(prefix, "gardener.cloud")

		if !b.allows(key) && !described && key != corev1.AnnotationLoadBalancerSourceRangesKey {
			keys = append(keys, key)
		}
	}

	slices.Sort(keys)

	return keys
}

// ports returns the ports of a load balancer, whose targets are the node ports of the Service. Its own node
// ports remain.
func ports(service, actual *corev1.Service) ([]corev1.ServicePort, error) {
	all := make([]corev1.ServicePort, 0, len(service.Spec.Ports))

	for _, port := range service.Spec.Ports {
		if port.NodePort == 0 {
			return nil, errNodePorts
		}

		balanced := corev1.ServicePort{
			Name:        port.Name,
			Protocol:    port.Protocol,
			AppProtocol: port.AppProtocol,
			Port:        port.Port,
			TargetPort:  intstr.FromInt32(port.NodePort),
		}

		for _, existing := range actual.Spec.Ports {
			if existing.Protocol == port.Protocol && existing.Port == port.Port {
				balanced.NodePort = existing.NodePort
			}
		}

		all = append(all, balanced)
	}

	return all, nil
}

// sourceRanges returns the addresses that may use a load balancer: those of the field, or of the annotation
// from before the field. nil allows all.
func sourceRanges(service *corev1.Service) ([]string, error) {
	if len(service.Spec.LoadBalancerSourceRanges) > 0 || service.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] == "" {
		return service.Spec.LoadBalancerSourceRanges, nil
	}

	ranges, err := servicehelper.GetLoadBalancerSourceRanges(service)
	if err != nil {
		return nil, fmt.Errorf("%w; use spec.loadBalancerSourceRanges", err)
	}

	return slices.Sorted(slices.Values(ranges.StringSlice())), nil
}

// status returns the status of a Service, from that of its load balancer: the addresses of the IP families of the
// Service. Their number is bounded, since the provider cluster chooses them.
func status(service, balancer *corev1.Service) *corev1.LoadBalancerStatus {
	const most = 32

	ingress := balancer.Status.LoadBalancer.Ingress
	ingress = slices.Clone(ingress[:min(len(ingress), most)])

	if len(service.Spec.IPFamilies) == 1 && len(balancer.Spec.IPFamilies) > 1 {
		ingress = slices.DeleteFunc(ingress, func(i corev1.LoadBalancerIngress) bool {
			return i.IP != "" && !slices.Contains(service.Spec.IPFamilies, familyOf(i.IP))
		})
	}

	return &corev1.LoadBalancerStatus{Ingress: ingress}
}

// familyOf returns the family of an IP; empty if it is not an IP.
func familyOf(ip string) corev1.IPFamily {
	address, err := netip.ParseAddr(ip)

	switch {
	case err != nil:
		return ""
	case address.Is6():
		return corev1.IPv6Protocol
	default:
		return corev1.IPv4Protocol
	}
}

// checkOwner returns an error if the labels of a load balancer name another cluster. Its name has the UID of the
// Service, so that one without these labels belongs to this cluster: other programs have removed them, or KubeVirt's
// own cloud-controller-manager has not set all. It gets them with the next change.
func (b *loadBalancers) checkOwner(balancer *corev1.Service) error {
	names := func(key, value string) bool { return balancer.Labels[key] != "" && balancer.Labels[key] != value }

	foreign := names(labelCluster, b.clusterName)
	for key, value := range b.infraLabels {
		foreign = foreign || names(key, value)
	}

	if foreign {
		return fmt.Errorf("the Service %s of the provider cluster belongs to another cluster, according to its labels; delete it if that cluster does not exist any more", balancer.Name)
	}

	return nil
}
