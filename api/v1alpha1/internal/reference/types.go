package main

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// rootType is the type that both outputs describe.
var rootType = reflect.TypeFor[v1alpha1.ProviderSpec]()

// describer describes Go types. The comments of KubeVirt, CDI and Kubernetes are compiled into
// their types.
type describer struct {
	// comments are the comments of the ProviderSpec's own types, by name, and of their fields, by
	// their names in JSON. The comment of the type itself has the key "".
	comments map[string]map[string]string
	// goMod contains the versions of the other projects.
	goMod []byte
	// definitions are the schemas of structs, by name.
	definitions map[string]*jsonSchema
	// errs are the types that cannot be described: an update of a dependency must not degrade the
	// schema silently.
	errs []error
}

func newDescriber(sources []string, goMod []byte) *describer {
	d := &describer{comments: map[string]map[string]string{}, goMod: goMod, definitions: map[string]*jsonSchema{}}

	for _, source := range sources {
		for _, documented := range runtime.ParseDocumentationFrom(source) {
			name := documented[0].Name
			comments := map[string]string{"": documented[0].Doc}
			for _, field := range documented[1:] {
				comments[field.Name] = field.Doc
			}

			d.comments[name] = comments
		}
	}

	return d
}

// comment returns the comment of a type's field, or of the type itself, in one line and without
// markers for other generators ("+optional").
func (d *describer) comment(t reflect.Type, field string) string {
	var text string

	if isOwn(t) {
		text = strings.ReplaceAll(d.comments[t.Name()][field], `\"`, `"`) // The parser escapes it.
	} else if documented, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		text = documented.SwaggerDoc()[field]
	}

	var words []string

	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "---" && !strings.HasPrefix(line, "+") {
			words = append(words, strings.Fields(line)...)
		}
	}

	return strings.Join(words, " ")
}

// specField is a field of an object in JSON.
type specField struct {
	name    string
	goType  reflect.Type
	comment string
	// own is set if a type of the ProviderSpec declares the field. Only such a field can be
	// required: the driver may set the fields that KubeVirt requires.
	own, required bool
}

// fieldsOf returns the fields that the decoder knows, including those of embedded structs.
func (d *describer) fieldsOf(t reflect.Type) []specField {
	var fields []specField

	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")

		switch {
		case f.Anonymous && name == "":
			fields = append(fields, d.fieldsOf(deref(f.Type))...)
		case f.IsExported() && name != "-" && name != "":
			comment := d.comment(t, name)
			if rest, ok := strings.CutPrefix(comment, f.Name+" "); ok && isOwn(t) {
				comment = name + " " + rest
			}

			required := isOwn(t) && !strings.Contains(options, "omitempty")
			fields = append(fields, specField{name, f.Type, comment, isOwn(t), required})
		}
	}

	return fields
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	return t
}

// isOwn reports whether a type is one of the ProviderSpec's own.
func isOwn(t reflect.Type) bool {
	return t.PkgPath() == rootType.PkgPath()
}

// scalars are the types that decode themselves, with their names on the page and their schemas.
var scalars = map[reflect.Type]struct {
	name   string
	schema jsonSchema
}{
	reflect.TypeFor[resource.Quantity](): {
		"[quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)", jsonSchema{Type: []string{"string", "number"}},
	},
	reflect.TypeFor[intstr.IntOrString](): {"integer or string", jsonSchema{Type: []string{"integer", "string"}}},
	reflect.TypeFor[metav1.Time]():        {"time", jsonSchema{Type: "string", Format: "date-time"}},
	reflect.TypeFor[metav1.Duration]():    {"duration", jsonSchema{Type: "string"}},
}

// enums are the string types whose values the driver checks.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[v1alpha1.CloudInitType](): {string(v1alpha1.CloudInitNoCloud), string(v1alpha1.CloudInitConfigDrive)},
	reflect.TypeFor[v1alpha1.MACPolicy]():     {string(v1alpha1.MACStable)},
	reflect.TypeFor[corev1.DNSPolicy](): {
		string(corev1.DNSClusterFirst), string(corev1.DNSClusterFirstWithHostNet), string(corev1.DNSDefault), string(corev1.DNSNone),
	},
	reflect.TypeFor[kubevirtv1.VirtualMachineRunStrategy](): {
		string(kubevirtv1.RunStrategyAlways), string(kubevirtv1.RunStrategyRerunOnFailure), string(kubevirtv1.RunStrategyOnce),
	},
}

// jsonType returns the JSON type of a simple Go type; it is empty for other types.
func jsonType(kind reflect.Kind) string {
	switch {
	case kind == reflect.Bool:
		return "boolean"
	case kind == reflect.String:
		return "string"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return "integer"
	default:
		return ""
	}
}
