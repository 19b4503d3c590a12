package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// report is the output of validate. Scripts depend on it: fields may be added, but never change.
type report struct {
	// Classes are all MachineClasses, including those without errors.
	Classes []classReport `json:"classes"`
	// Unreadable are the errors for files, or parts of them, that
	// are not manifests. Each counts as an error.
	Unreadable []fileError `json:"unreadable,omitempty"`
	// Skipped counts the objects of other kinds.
	Skipped  int `json:"passedOver"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
}

// classReport is the report on one MachineClass.
type classReport struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	File      string    `json:"file"`
	Line      int       `json:"line"`
	Errors    []finding `json:"errors"`
	Warnings  []finding `json:"warnings"`
}

// finding is an error or a warning. Its field is empty if it is about the manifest as a whole.
type finding struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// newClassReport returns a report with the errors of the manifest itself.
func newClassReport(class machineClass) classReport {
	r := classReport{
		Name: class.Name, Namespace: class.Namespace, File: class.file, Line: class.line, Errors: []finding{}, Warnings: []finding{},
	}

	for _, text := range class.textErrors {
		r.Errors = append(r.Errors, finding{Message: text})
	}

	r.addErrors(class.fieldErrors)

	return r
}

func (r *classReport) addErrors(errs field.ErrorList) {
	for _, err := range errs {
		r.Errors = append(r.Errors, finding{Field: err.Field, Message: err.ErrorBody()})
	}
}

func (r *classReport) addWarnings(warnings []validation.Warning) {
	for _, w := range warnings {
		r.Warnings = append(r.Warnings, finding{Field: w.Field, Message: w.Detail})
	}
}

// sorted sorts the findings and removes duplicates. Those about the whole manifest come first.
// Without sorting, the order of some is random.
func (r *classReport) sorted() classReport {
	for _, list := range []*[]finding{&r.Errors, &r.Warnings} {
		slices.SortStableFunc(*list, func(a, b finding) int {
			return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
		})

		*list = slices.Compact(*list)
	}

	return *r
}

func (r report) print(out io.Writer, format string) error {
	if format != outputText {
		return printObject(out, format, r)
	}

	for _, f := range r.Unreadable {
		fmt.Fprintf(out, "%s\n  error    %s\n\n", f.File, f.Message)
	}

	for _, class := range r.Classes {
		class.print(out)
	}

	_, err := fmt.Fprintf(out, "%s, %s, %s; objects of other kinds: %d\n",
		count(len(r.Classes), "MachineClass"), count(r.Errors, "error"), count(r.Warnings, "warning"), r.Skipped)

	return err
}

func (r *classReport) print(out io.Writer) {
	fmt.Fprintf(out, "MachineClass %s (%s:%d)\n", qualified(r.Namespace, r.Name), r.File, r.Line)

	if len(r.Errors)+len(r.Warnings) == 0 {
		fmt.Fprintln(out, "  no errors, no warnings")
	}

	printFindings(out, "error", r.Errors)
	printFindings(out, "warning", r.Warnings)
	fmt.Fprintln(out)
}

// qualified returns a name with its namespace, if there is one.
func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}

	return namespace + "/" + name
}

func printFindings(out io.Writer, severity string, findings []finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "  %-8s %s\n", severity, f)
	}
}

// String returns the finding as one line.
func (f finding) String() string {
	if f.Field == "" {
		return f.Message
	}

	return f.Field + ": " + f.Message
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	default:
		return fmt.Sprintf("%d %ss", n, noun)
	}
}
