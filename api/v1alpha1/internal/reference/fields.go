package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// specField is a field of an object, as its JSON has it.
type specField struct {
	name     string
	goType   reflect.Type
	required bool
	// owner is the struct that declares the field; it may be embedded in the one that was asked for.
	owner reflect.Type
}

// fieldsOf returns the fields that the decoder knows, those of embedded structs in their place. Only the ProviderSpec's own
// fields can be required: what KubeVirt requires, the driver may set.
func fieldsOf(t reflect.Type) []specField {
	var list []specField

	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")

		switch {
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(deref(f.Type))...)
		case f.IsExported() && name != "-" && name != "":
			required := isOwn(t) && !strings.Contains(options, "omitempty")
			list = append(list, specField{name: name, goType: f.Type, required: required, owner: t})
		}
	}

	return list
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	return t
}

// ownTypes returns the ProviderSpec's own structs in the order in which a reader meets them, and the paths of the fields that
// they are the types of.
func ownTypes() ([]reflect.Type, map[reflect.Type][]string) {
	var (
		order []reflect.Type
		visit func(t reflect.Type, path string)
	)

	places := map[reflect.Type][]string{}

	visit = func(t reflect.Type, path string) {
		for t = deref(t); t.Kind() == reflect.Slice; t = deref(t.Elem()) {
			path += "[]"
		}

		if !isOwn(t) || t.Kind() != reflect.Struct {
			return
		}

		if _, seen := places[t]; !seen {
			order = append(order, t)
		}

		places[t] = append(places[t], path)

		for _, f := range fieldsOf(t) {
			visit(f.goType, strings.TrimPrefix(path+"."+f.name, "."))
		}
	}
	visit(rootType(), "")

	return order, places
}

// scalar is a type whose JSON is no object of fields. Its name is for people, in Markdown.
type scalar struct {
	name   string
	types  []string
	format string
}

const quantity = "[quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/)"

// scalarOf returns how a type that decodes itself looks in JSON. KubeVirt's such types are ordinary objects, as they are for the
// decoder. A type that is not known here is an error, so that an update of a dependency does not spoil the schema in silence.
func scalarOf(t reflect.Type) (*scalar, error) {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return &scalar{name: quantity, types: []string{"string", "number"}}, nil
	case reflect.TypeFor[intstr.IntOrString]():
		return &scalar{name: "integer or string", types: []string{"integer", "string"}}, nil
	case reflect.TypeFor[metav1.Time]():
		return &scalar{name: "time", types: []string{"string"}, format: "date-time"}, nil
	case reflect.TypeFor[metav1.Duration]():
		return &scalar{name: "duration", types: []string{"string"}}, nil
	}

	decodesItself := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	if decodesItself && !strings.HasPrefix(t.PkgPath(), "kubevirt.io/") {
		return nil, fmt.Errorf("type %s decodes itself: say in fields.go how it looks in JSON", t)
	}

	return nil, nil //nolint:nilnil // It is an object.
}

// valuesOf returns the values that a string type may have, if the driver knows them all.
func valuesOf(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[v1alpha1.CloudInitType]():
		return texts(v1alpha1.CloudInitNoCloud, v1alpha1.CloudInitConfigDrive)
	case reflect.TypeFor[v1alpha1.MACPolicy]():
		return texts(v1alpha1.MACStable)
	case reflect.TypeFor[corev1.DNSPolicy]():
		return texts(corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	case reflect.TypeFor[kubevirtv1.VirtualMachineRunStrategy]():
		return texts(kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce)
	}

	return nil
}

func texts[T ~string](values ...T) []string {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = string(value)
	}

	return list
}
