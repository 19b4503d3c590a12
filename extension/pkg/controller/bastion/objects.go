// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"crypto/sha256"
	"fmt"
	"strings"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
)

const (
	sshPort = 22

	// The names of the disks and of the interface of the virtual machine.
	rootDisk, cloudInitDisk, primaryInterface = "root", "cloud-init", "default"
)

// nameOf returns the name of the objects of a bastion. Its prefix is the technical ID as far as it fits into the name of
// a Service; its end differs for each bastion, also for Shoots of other landscapes.
func nameOf(b *extensionsv1alpha1.Bastion, owner ownership.Owner) string {
	const longest = 40

	sum := sha256.Sum256([]byte(string(owner.UID) + "/" + owner.TechnicalID + "/" + b.Name))

	return fmt.Sprintf("%.*s-bastion-%x", longest, owner.TechnicalID, sum[:5])
}

// labels select the pod of the bastion.
func (f *flow) labels() map[string]string {
	labels := f.owner.Labels()
	labels[kubevirt.LabelBastion] = f.key().Name

	return labels
}

// secret returns the user data, which contain a host key.
func (f *flow) secret(hostKey []byte) (*corev1.Secret, error) {
	userData, err := userDataOf(f.bastion.Spec.UserData, hostKey)

	return &corev1.Secret{
		ObjectMeta: f.meta(),
		Type:       corev1.SecretTypeOpaque,
		Immutable:  ptr.To(true),
		Data: map[string][]byte{
			userDataKey: userData,
			hostKeyKey:  hostKey,
		},
	}, err
}

// networkPolicy admits the clients of the bastion, and allows it to connect to the machines of the shoot only: the users
// of the shoot are root in it, inside the pod network of the provider cluster.
func (f *flow) networkPolicy() *networkingv1.NetworkPolicy {
	ssh := []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(sshPort))}}

	var clients []networkingv1.NetworkPolicyPeer
	for _, ingress := range f.bastion.Spec.Ingress {
		clients = append(clients, networkingv1.NetworkPolicyPeer{IPBlock: ingress.IPBlock.DeepCopy()})
	}

	return &networkingv1.NetworkPolicy{
		ObjectMeta: f.meta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: f.labels()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: clients, Ports: ssh}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: f.machines(), Ports: ssh}},
		},
	}
}

// machines selects the machines of the shoot. Those from before the tag with the Shoot's UID have the technical ID alone, which
// a Shoot of another landscape can have, too.
func (f *flow) machines() []networkingv1.NetworkPolicyPeer {
	tag := func(operator metav1.LabelSelectorOperator, values ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
			MatchLabels:      map[string]string{providerspec.TagCluster: f.owner.TechnicalID},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: providerspec.TagShootUID, Operator: operator, Values: values}},
		}}
	}

	return []networkingv1.NetworkPolicyPeer{tag(metav1.LabelSelectorOpIn, string(f.owner.UID)), tag(metav1.LabelSelectorOpDoesNotExist)}
}

// service returns the load balancer. It keeps the addresses of the clients, by which the NetworkPolicy admits them.
func (f *flow) service(profile *api.CloudProfileConfig) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: f.meta(),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeLoadBalancer,
			Selector:                 f.labels(),
			Ports:                    []corev1.ServicePort{{Name: "ssh", Protocol: corev1.ProtocolTCP, Port: sshPort, TargetPort: intstr.FromInt32(sshPort)}},
			LoadBalancerSourceRanges: rangesOf(f.bastion, nil),
			IPFamilyPolicy:           ptr.To(corev1.IPFamilyPolicySingleStack),
			ExternalTrafficPolicy:    corev1.ServiceExternalTrafficPolicyLocal,
		},
	}

	if offered := profile.LoadBalancer; offered != nil && offered.Class != "" {
		service.Spec.LoadBalancerClass = &offered.Class
	}

	return service
}

// virtualMachine returns the machine of the bastion. It restarts on another node when its node is drained.
func (f *flow) virtualMachine(infra *api.InfrastructureStatus, image *kubevirtv1.ContainerDiskSource) *kubevirtv1.VirtualMachine {
	disk := kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}
	nic, network := f.network(infra)
	userData := &kubevirtv1.CloudInitNoCloudSource{UserDataSecretRef: &corev1.LocalObjectReference{Name: f.key().Name}}

	return &kubevirtv1.VirtualMachine{
		ObjectMeta: f.meta(),
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: ptr.To(kubevirtv1.RunStrategyAlways),
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: f.labels()},
				Spec: kubevirtv1.VirtualMachineInstanceSpec{
					Domain: kubevirtv1.DomainSpec{
						CPU:       &kubevirtv1.CPU{Cores: 1},
						Memory:    &kubevirtv1.Memory{Guest: ptr.To(resource.MustParse("512Mi"))},
						Resources: kubevirtv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
						Devices: kubevirtv1.Devices{
							Disks:      []kubevirtv1.Disk{{Name: rootDisk, DiskDevice: disk}, {Name: cloudInitDisk, DiskDevice: disk}},
							Interfaces: []kubevirtv1.Interface{nic},
							Rng:        &kubevirtv1.Rng{},
						},
					},
					Networks: []kubevirtv1.Network{network},
					Volumes: []kubevirtv1.Volume{
						{Name: rootDisk, VolumeSource: kubevirtv1.VolumeSource{ContainerDisk: image}},
						{Name: cloudInitDisk, VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: userData}},
					},
					ReadinessProbe:                readinessProbe(network),
					EvictionStrategy:              ptr.To(kubevirtv1.EvictionStrategyNone),
					TerminationGracePeriodSeconds: ptr.To(int64(0)),
				},
			},
		},
	}
}

// imageOf returns the disk of bastions. Without a digest, it is pulled whenever a virtual machine starts: Kubernetes' default
// keeps what a node has pulled first, without later security updates.
func imageOf(profile *api.CloudProfileConfig) (*kubevirtv1.ContainerDiskSource, error) {
	image := &kubevirtv1.ContainerDiskSource{}

	if profile.Bastion != nil {
		image = profile.Bastion.ContainerDisk.DeepCopy()
	} else {
		found, err := imagevector.ImageVector().FindImage(imagevector.Bastion)
		if err != nil {
			return nil, fmt.Errorf("find the image of bastions: %w", err)
		}

		image.Image = found.String()
	}

	if image.ImagePullPolicy == "" && !strings.Contains(image.Image, "@") {
		image.ImagePullPolicy = corev1.PullAlways
	}

	return image, nil
}

// readinessProbe returns the probe of the SSH server. KubeVirt refuses it without the pod network.
func readinessProbe(network kubevirtv1.Network) *kubevirtv1.Probe {
	if network.Pod == nil {
		return nil
	}

	return &kubevirtv1.Probe{Handler: kubevirtv1.Handler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(sshPort)}}}
}

// network returns the network of the bastion: the one through which the load balancers of the provider cluster reach the
// machines of the shoot, and these each other.
func (f *flow) network(infra *api.InfrastructureStatus) (kubevirtv1.Interface, kubevirtv1.Network) {
	nic := kubevirtv1.Interface{Name: primaryInterface}
	network := kubevirtv1.Network{Name: primaryInterface}

	for _, n := range infra.Networks {
		if !n.Default {
			continue
		}

		network.Multus = &kubevirtv1.MultusNetwork{NetworkName: n.Name, Default: true}

		if nic.Binding = n.Binding.DeepCopy(); nic.Binding == nil {
			nic.Bridge = &kubevirtv1.InterfaceBridge{}
		}

		return nic, network
	}

	network.Pod = &kubevirtv1.PodNetwork{}

	switch pod := infra.PodNetwork; {
	case pod == nil || pod.Binding == "" || pod.Binding == api.BindingBridge || pod.Binding == api.BindingMasquerade || pod.Binding == api.BindingPasst:
		nic.Masquerade = &kubevirtv1.InterfaceMasquerade{}
	default:
		nic.Binding = &kubevirtv1.PluginBinding{Name: pod.Binding}
	}

	return nic, network
}
