package kubevirt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// Provider is what a MachineClass names as its provider.
	Provider = "kubevirt"
	// predecessorProvider is what the MachineClasses of the driver's predecessor name.
	predecessorProvider = "kubevirtdriver//127.0.0.1:8080"

	// labelMachineDeployment is the label with which Gardener names the MachineDeployment on its machines.
	labelMachineDeployment = "name"
)

// DecodeCreateMachine reads everything that a machine is made of, and validates it. Every fault is named at once. The result
// shares memory with the request.
func DecodeCreateMachine(req *driver.CreateMachineRequest, allowed apivalidation.Options) (*spi.CreateMachineInput, error) {
	if req == nil {
		return nil, invalid("the request is empty")
	}

	if req.Machine == nil {
		return nil, invalid("the request has no Machine")
	}

	if msgs := validation.IsDNS1123Label(req.Machine.Name); len(msgs) > 0 {
		return nil, invalid("Machine name %q cannot be a VirtualMachine's and a node's: %s", req.Machine.Name, msgs[0])
	}

	if req.Machine.UID == "" {
		return nil, invalid("Machine %s has no UID", req.Machine.Name)
	}

	kubeconfig, err := decodeClass(req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}

	if err := decodeLabels(req); err != nil {
		return nil, err
	}

	userData := req.Secret.Data[apiv1alpha1.SecretKeyUserData]
	if len(userData) == 0 {
		return nil, missingKey(req.MachineClass, apiv1alpha1.SecretKeyUserData)
	}

	spec, errs := apivalidation.Decode(req.MachineClass.ProviderSpec.Raw, allowed)
	if len(errs) > 0 {
		return nil, spi.Errorf(spi.ErrInvalid, "%w", errs.ToAggregate())
	}

	return &spi.CreateMachineInput{
		Kubeconfig:   kubeconfig,
		Name:         req.Machine.Name,
		UID:          req.Machine.UID,
		Deployment:   req.Machine.Labels[labelMachineDeployment],
		WorkerPool:   req.Machine.Spec.NodeTemplateSpec.Labels[apiv1alpha1.LabelWorkerPool],
		Architecture: architecture(req.MachineClass),
		UserData:     userData,
		Spec:         spec,
		Class:        classOf(req.MachineClass),
		Evacuation:   allowed.Evacuation,
	}, nil
}

// architectures are those that KubeVirt knows. A machine of another would wait for ever for a host.
var architectures = []string{"", "amd64", "arm64", "s390x"}

// decodeLabels judges what becomes labels of the machine's objects, or chooses its host, without being part of the ProviderSpec.
func decodeLabels(req *driver.CreateMachineRequest) error {
	pool := req.Machine.Spec.NodeTemplateSpec.Labels[apiv1alpha1.LabelWorkerPool]
	if msgs := validation.IsValidLabelValue(pool); len(msgs) > 0 {
		return invalid("label %s in the nodeTemplate of Machine %s: %s", apiv1alpha1.LabelWorkerPool, req.Machine.Name, msgs[0])
	}

	if msgs := validation.IsValidLabelValue(req.Machine.Labels[labelMachineDeployment]); len(msgs) > 0 {
		return invalid("label %s of Machine %s: %s", labelMachineDeployment, req.Machine.Name, msgs[0])
	}

	if !slices.Contains(architectures, architecture(req.MachineClass)) {
		return unknownArchitecture(req.MachineClass)
	}

	return nil
}

func unknownArchitecture(class *v1alpha1.MachineClass) error {
	return invalid("nodeTemplate.architecture of MachineClass %s: %q is none of amd64, arm64 and s390x", class.Name, architecture(class))
}

// target is what a call on an existing machine needs.
type target struct {
	kubeconfig []byte
	identity   spi.Identity
}

// decodeTarget reads it from a request. The Machine comes from outside too: one whose name no VirtualMachine can have does not exist, so
// that it can be removed. The predecessor's machines may have names that CreateMachine refuses.
func decodeTarget(machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret) (target, error) {
	if machine == nil || machine.Name == "" {
		return target{}, invalid("the request has no Machine, or one without a name")
	}

	if len(validation.IsDNS1123Subdomain(machine.Name)) > 0 {
		return target{}, spi.Errorf(spi.ErrNotFound, "no VirtualMachine can be named %q", machine.Name)
	}

	kubeconfig, err := decodeClass(class, secret)
	if err != nil {
		return target{}, err
	}

	id, err := decodeIdentity(class)

	return target{kubeconfig: kubeconfig, identity: id}, err
}

// decodeClass returns the kubeconfig for a class of this provider.
func decodeClass(class *v1alpha1.MachineClass, secret *corev1.Secret) ([]byte, error) {
	if class == nil {
		return nil, invalid("the request has no MachineClass")
	}

	if !Ours(class) {
		return nil, invalid("MachineClass %s is of provider %q; set it to %q", class.Name, class.Provider, Provider)
	}

	if secret == nil || len(secret.Data[apiv1alpha1.SecretKeyKubeconfig]) == 0 {
		return nil, missingKey(class, apiv1alpha1.SecretKeyKubeconfig)
	}

	return secret.Data[apiv1alpha1.SecretKeyKubeconfig], nil
}

// missingKey is what an absent key and an absent Secret have in common: machine-controller-manager hands over no data for either.
func missingKey(class *v1alpha1.MachineClass, key string) error {
	names := secretNames(class)
	if len(names) == 0 {
		return spi.WithRemedy(invalid("MachineClass %s refers to no Secret with the key %s", class.Name, key), "name the Secret in secretRef")
	}

	return spi.WithRemedy(invalid("MachineClass %s: Secret %s does not exist or has no key %s", class.Name, strings.Join(names, " or "), key),
		"create the Secret in the namespace of the MachineClass, with this key")
}

// Ours reports whether a MachineClass is of this provider.
func Ours(class *v1alpha1.MachineClass) bool {
	return class.Provider == "" || class.Provider == Provider || class.Provider == predecessorProvider
}

// ClassErrors returns what keeps every call for a MachineClass from succeeding, whatever its providerSpec says: a foreign
// provider, and Secrets that machine-controller-manager cannot find. mcm-kubevirt shows it to its users.
func ClassErrors(class *v1alpha1.MachineClass) field.ErrorList {
	var errs field.ErrorList

	if !Ours(class) {
		errs = append(errs, field.NotSupported(field.NewPath("provider"), class.Provider, []string{Provider}))
	}

	secret, credentials := field.NewPath("secretRef"), field.NewPath("credentialsSecretRef")
	if class.SecretRef == nil && class.CredentialsSecretRef == nil {
		errs = append(errs, field.Required(secret, fmt.Sprintf("name the Secret with the keys %s and %s; either of them may be in that of %s",
			apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData, credentials)))
	}

	return append(errs, append(secretErrors(class.SecretRef, secret), secretErrors(class.CredentialsSecretRef, credentials)...)...)
}

func secretErrors(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the Secret"))
	}

	if ref != nil && ref.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "name the Secret's namespace, which has no default"))
	}

	return errs
}

// ClassWarnings returns what is deprecated in a MachineClass beside its providerSpec. mcm-kubevirt shows it to its users.
func ClassWarnings(class *v1alpha1.MachineClass) []apivalidation.Warning {
	if class.Provider != predecessorProvider {
		return nil
	}

	return []apivalidation.Warning{{Field: "provider", Detail: "is the name of the driver's predecessor, and deprecated; write " + Provider}}
}

// decodeIdentity reads the tags, leniently: deletion must not depend on the rest of the spec.
func decodeIdentity(class *v1alpha1.MachineClass) (spi.Identity, error) {
	id := identityOf(class)
	if !id.Valid() {
		return id, invalid("the providerSpec of MachineClass %s lacks the tags %s and %s, or they are no label values", class.Name, apiv1alpha1.TagCluster, apiv1alpha1.TagRole)
	}

	return id, nil
}

func identityOf(class *v1alpha1.MachineClass) spi.Identity {
	tags := apiv1alpha1.DecodeTags(class.ProviderSpec.Raw)

	return spi.Identity{Cluster: tags[apiv1alpha1.TagCluster], Role: tags[apiv1alpha1.TagRole]}
}

// decodeObserve reads which machine to look at.
func (p *MachinePlugin) decodeObserve(
	machine *v1alpha1.Machine, class *v1alpha1.MachineClass, secret *corev1.Secret,
) (*spi.ObserveMachineInput, error) {
	to, err := decodeTarget(machine, class, secret)
	if err != nil {
		return nil, err
	}

	return &spi.ObserveMachineInput{
		Kubeconfig:      to.kubeconfig,
		Name:            machine.Name,
		Identity:        to.identity,
		Deleting:        machine.DeletionTimestamp != nil,
		HasProviderID:   machine.Spec.ProviderID != "",
		Recorded:        recordedAddress(machine),
		CreationTimeout: p.creationTimeout(machine),
		Report:          p.journal.of(machine),
	}, nil
}

// recordedAddress returns what a Machine records of its address. A client of the driver over gRPC may be another machine controller, which
// keeps LastKnownState as driver.proto has it, and knows no annotation.
func recordedAddress(machine *v1alpha1.Machine) *spi.AddressRecord {
	if recorded := spi.RecordedAddress(machine.Annotations); recorded != nil {
		return recorded
	}

	address, err := spi.DecodeAddress(machine.Status.LastKnownState)
	if err != nil {
		return nil
	}

	return &spi.AddressRecord{Address: address}
}

func (p *MachinePlugin) creationTimeout(machine *v1alpha1.Machine) time.Duration {
	if c := machine.Spec.MachineConfiguration; c != nil && c.MachineCreationTimeout != nil {
		return c.MachineCreationTimeout.Duration
	}

	return p.options.CreationTimeout
}

func architecture(class *v1alpha1.MachineClass) string {
	if class.NodeTemplate == nil {
		return ""
	}

	return ptr.Deref(class.NodeTemplate.Architecture, "")
}

func invalid(format string, args ...any) error {
	return spi.Errorf(spi.ErrInvalid, format, args...)
}
