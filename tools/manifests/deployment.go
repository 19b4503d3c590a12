// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine"
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmvalidation "github.com/gardener/machine-controller-manager/pkg/apis/machine/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Deployment is a MachineDeployment of a file.
type Deployment struct {
	*v1alpha1.MachineDeployment

	// report contains all its errors.
	report Report
}

func readDeployment(d document, is metav1.TypeMeta) Deployment {
	object := &v1alpha1.MachineDeployment{}
	report := decode(d, is, object, &object.ObjectMeta)
	report.AddErrors(ExcludeReported(DeploymentErrors(object), report.Errors))

	return Deployment{MachineDeployment: object, report: report}
}

// DeploymentErrors returns the reasons for which machine-controller-manager ignores a MachineDeployment. It
// only logs them: there is no Machine, no Event and no status (pkg/controller/deployment.go).
func DeploymentErrors(d *v1alpha1.MachineDeployment) field.ErrorList {
	path := field.NewPath("spec")
	errs := selectorErrors(d, path)

	class := path.Child("template", "spec", "class")
	if kind := d.Spec.Template.Spec.Class.Kind; kind != "" && kind != "MachineClass" {
		errs = append(errs, field.NotSupported(class.Child("kind"), kind, []string{"MachineClass"}))
	}

	checked := d.DeepCopy()
	if checked.Spec.Selector == nil {
		checked.Spec.Selector = &metav1.LabelSelector{} // machine-controller-manager's validation does not expect this.
	}

	internal := &machine.MachineDeployment{}
	if err := v1alpha1.Convert_v1alpha1_MachineDeployment_To_machine_MachineDeployment(checked, internal, nil); err != nil {
		return append(errs, field.InternalError(path, err))
	}

	for _, err := range mcmvalidation.ValidateMachineDeployment(internal) {
		switch {
		case strings.HasPrefix(err.Field, path.Child("selector").String()): // selectorErrors reports it.
			continue
		case err.Field == path.Child("strategy.type").String() && d.Spec.Strategy.Type == "":
			err.Type = field.ErrorTypeRequired
			err.Detail = "set it to RollingUpdate, with strategy.rollingUpdate: unlike in apps/v1, there is no default"
		}

		errs = append(errs, err)
	}

	return errs
}

// selectorErrors returns the errors of the selector.
func selectorErrors(d *v1alpha1.MachineDeployment, path *field.Path) field.ErrorList {
	path = path.Child("selector")

	if d.Spec.Selector == nil || len(d.Spec.Selector.MatchLabels)+len(d.Spec.Selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(path, "select the labels in spec.template.metadata.labels")}
	}

	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)

	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(d.Spec.Selector), err.Error())}
	case !selector.Matches(labels.Set(d.Spec.Template.Labels)):
		return field.ErrorList{field.Invalid(path, selector.String(), "must match spec.template.metadata.labels")}
	default:
		return nil
	}
}

// Validated returns the report on a MachineDeployment among the given classes.
func (d *Deployment) Validated(classes []Class) Report {
	report := d.report
	name := d.Spec.Template.Spec.Class.Name

	// A manifest without a namespace can be applied to any.
	found := slices.ContainsFunc(classes, func(c Class) bool {
		return c.Name == name && (c.Namespace == d.Namespace || c.Namespace == "" || d.Namespace == "")
	})
	if !found && name != "" {
		report.warn("spec.template.spec.class.name", "MachineClass "+name+" is not in the files, so it is not checked; without it, no Machine is created")
	}

	return report
}
