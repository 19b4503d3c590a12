// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// validateScheduling validates settings that KubeVirt copies to the machine's pod without validation: with
// an invalid one, the pod is never created. KubeVirt validates affinity and topology spread itself.
func validateScheduling(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	errs := slices.Concat(
		metav1validation.ValidateLabels(vmi.NodeSelector, path.Child("nodeSelector")),
		validateOptionalName(vmi.PriorityClassName, path.Child("priorityClassName")),
		validateOptionalName(vmi.SchedulerName, path.Child("schedulerName")),
		validateNodeSelectorTerms(vmi.Affinity, path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")),
	)

	for i, t := range vmi.Tolerations {
		errs = append(errs, validateToleration(t, path.Child("tolerations").Index(i))...)
	}

	return errs
}

// validateNodeSelectorTerms refuses empty terms. In Kubernetes they match no node, but KubeVirt adds its
// own requirements to them (pkg/virt-controller/services/template.go), and then they match nodes in
// every zone.
func validateNodeSelectorTerms(affinity *corev1.Affinity, path *field.Path) field.ErrorList {
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}

	var errs field.ErrorList

	for i, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		errs = append(errs, require(path.Index(i), len(term.MatchExpressions)+len(term.MatchFields), "set a node selector requirement, or remove it")...)
	}

	return errs
}

// validateToleration applies the rules for pods (k8s.io/kubernetes/pkg/apis/core/validation).
func validateToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	exists := t.Operator == corev1.TolerationOpExists
	errs := slices.Concat(
		validateOneOf(path.Child("operator"), cmp.Or(t.Operator, corev1.TolerationOpEqual), corev1.TolerationOpEqual, corev1.TolerationOpExists),
		validateOneOf(path.Child("effect"), cmp.Or(t.Effect, corev1.TaintEffectNoSchedule),
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		refuse(path.Child("operator"), t.Key == "" && !exists, t.Operator, "must be Exists with an empty key, to tolerate every taint"),
		refuse(path.Child("value"), exists && t.Value != "", t.Value, "must be empty with the operator Exists"),
		refuse(path.Child("effect"), t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute, t.Effect,
			"must be NoExecute with tolerationSeconds"),
	)

	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}

	return errs
}
