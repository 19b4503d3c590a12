package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// smallestGuest is what nobody means by less: without a unit, KubeVirt would start a guest with eight bytes.
const smallestGuest = 1 << 20

// amount is a quantity of a spec, and where it is given.
type amount struct {
	*resource.Quantity

	path *field.Path
}

// memory is checked here because KubeVirt accepts a VirtualMachine without any, and then never starts it; and because a guest
// that is larger than its pod's limit is killed as soon as it uses what it has.
func memory(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	guest, request, limit := memoryOf(spec, path)

	switch {
	case guest.Quantity != nil:
		return append(guestMemory(guest), withinBounds(guest, request, limit)...)
	case request.Quantity != nil:
		return guestMemory(request)
	case limit.Quantity != nil:
		return guestMemory(limit)
	case spec.VirtualMachineTemplate != nil && spec.VirtualMachineTemplate.Spec.Instancetype != nil:
		return nil
	default:
		return field.ErrorList{field.Required(path.Child("memory", "guest"), "set the guest's memory, for example 8Gi")}
	}
}

// memoryOf returns the guest's memory, and its pod's request and limit, as they are after the template is merged.
func memoryOf(spec *v1alpha1.ProviderSpec, path *field.Path) (guest, request, limit amount) {
	guest, request, limit = amountsOf(spec.Memory, spec.Resources, path)

	if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil {
		domain := t.Spec.Template.Spec.Domain
		over := path.Child("virtualMachineTemplate", "spec", "template", "spec", "domain")
		guestOver, requestOver, limitOver := amountsOf(domain.Memory, domain.Resources, over)

		return guestOver.or(guest), requestOver.or(request), limitOver.or(limit)
	}

	return guest, request, limit
}

func amountsOf(m *kubevirtv1.Memory, r kubevirtv1.ResourceRequirements, path *field.Path) (guest, request, limit amount) {
	if m != nil {
		guest = amount{m.Guest, path.Child("memory", "guest")}
	}

	if q, given := r.Requests[corev1.ResourceMemory]; given {
		request = amount{&q, path.Child("resources", "requests").Key("memory")}
	}

	if q, given := r.Limits[corev1.ResourceMemory]; given {
		limit = amount{&q, path.Child("resources", "limits").Key("memory")}
	}

	return guest, request, limit
}

func (a amount) or(b amount) amount {
	if a.Quantity != nil {
		return a
	}

	return b
}

func guestMemory(a amount) field.ErrorList {
	if a.Value() >= smallestGuest {
		return nil
	}

	return field.ErrorList{field.Invalid(a.path, a.String(), "must be at least 1Mi; write the unit, for example 8Gi")}
}

func withinBounds(guest, request, limit amount) field.ErrorList {
	var errs field.ErrorList

	if request.Quantity != nil && guest.Cmp(*request.Quantity) < 0 {
		errs = append(errs, field.Invalid(guest.path, guest.String(),
			"must not be less than "+request.path.String()+", "+request.String()+": the guest could not use what its pod reserves"))
	}

	if limit.Quantity != nil && guest.Cmp(*limit.Quantity) > 0 {
		errs = append(errs, field.Invalid(guest.path, guest.String(),
			"must not exceed "+limit.path.String()+", "+limit.String()+": the machine would be killed when it uses its memory"))
	}

	return errs
}
