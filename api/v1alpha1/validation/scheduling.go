package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// scheduling judges what KubeVirt copies to the machine's pod without a look: with a wrong value there, the pod is never
// created. Affinity and spread KubeVirt judges itself.
func scheduling(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(vmi.NodeSelector, path.Child("nodeSelector"))

	errs = append(errs, optionalName(vmi.PriorityClassName, path.Child("priorityClassName"))...)
	errs = append(errs, optionalName(vmi.SchedulerName, path.Child("schedulerName"))...)

	errs = append(errs, terms(vmi.Affinity, path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))...)

	for i, toleration := range vmi.Tolerations {
		errs = append(errs, tolerate(toleration, path.Child("tolerations").Index(i))...)
	}

	return errs
}

// terms refuses empty node selector terms: to Kubernetes they match nothing, but KubeVirt adds to them, and then they match nodes
// everywhere (pkg/virt-controller/services/template.go).
func terms(affinity *corev1.Affinity, path *field.Path) field.ErrorList {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}

	var errs field.ErrorList

	for i, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			errs = append(errs, field.Required(path.Child("nodeSelectorTerms").Index(i), "say which nodes it is about, or remove it"))
		}
	}

	return errs
}

// tolerate follows the rules for pods (k8s.io/kubernetes/pkg/apis/core/validation).
func tolerate(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	operators := []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists}
	effects := []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

	if !slices.Contains(operators, t.Operator) {
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, operators[1:]))
	}

	if !slices.Contains(effects, t.Effect) {
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, effects[1:]))
	}

	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists when key is empty, which tolerates every taint"))
	}

	if t.Operator == corev1.TolerationOpExists && t.Value != "" {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty with the operator Exists"))
	}

	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute with tolerationSeconds"))
	}

	return errs
}
