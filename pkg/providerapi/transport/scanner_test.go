package transport

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// hang is a quantity that takes hours to parse.
const hang = "1234567890123456789012e2000000000"

func TestScanner(t *testing.T) {
	t.Parallel()

	members := func(n int) string { return "{" + strings.Repeat(`"a":"",`, n-1) + `"a":""}` }

	tests := map[string]struct {
		reason string
		body   string
		want   error
	}{
		"Elements":         {"as many as there may be", `[0` + strings.Repeat(",0", maxElements-1) + `]`, nil},
		"TooManyElements":  {"one more", `[0` + strings.Repeat(",0", maxElements) + `]`, ErrElements},
		"Nothing":          {"they may be nothing", `{"items":[null` + strings.Repeat(",null", maxElements) + `]}`, ErrElements},
		"Everywhere":       {"all arrays count", `{"a":[` + strings.Repeat(`{"b":[]},`, maxElements/2) + `{}]}`, ErrElements},
		"Members":          {"as many as there may be", members(maxMembers), nil},
		"TooManyMembers":   {"one more", members(maxMembers + 1), errMembers},
		"MembersOfMany":    {"of all objects together", `{"a":[` + members(maxMembers/2) + `,` + members(maxMembers/2) + `]}`, errMembers},
		"Depth":            {"as deep as there may be", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), nil},
		"TooDeep":          {"one more", strings.Repeat(`{"a":`, maxDepth+1), errDepth},
		"Text":             {"a text is one element", `["` + strings.Repeat(`,\",\\`, maxElements) + `"]`, nil},
		"AfterText":        {"it ends at its quote", `["\\"` + strings.Repeat(`,""`, maxElements) + `]`, ErrElements},
		"Events":           {"each event of a watch counts for itself", strings.Repeat(`{"object":{"a":[1,2,3]}}`+"\n", maxElements), nil},
		"Unopened":         {"what is no JSON is the decoder's to refuse", `]}],` + strings.Repeat(",", maxElements), nil},
		"Quantity":         {"it takes hours to parse", `{"guest":"` + hang + `"}`, errNumber},
		"QuantityNumber":   {"without quotes too", `{"guest":` + hang + `}`, errNumber},
		"QuantityLast":     {"in an array too", `[1,` + hang + `]`, errNumber},
		"QuantityEscaped":  {"it is the same text to a decoder", `{"guest":"1\u0065\u0032000000000"}`, errNumber},
		"QuantitySpaces":   {"apimachinery trims them", `{"guest":" \t\u2003` + "\u00a0" + hang + `\n "}`, errNumber},
		"QuantityName":     {"names are texts too", `{"` + hang + `":1}`, errNumber},
		"QuantityEvent":    {"in a later event of a watch", `{"a":1}` + "\n" + `{"object":{"a":"` + hang + `"}}`, errNumber},
		"Digits":           {"long numbers take long too", `{"a":"` + strings.Repeat("9", quantity.MaxDigits+1) + `"}`, errNumber},
		"Label":            {"a label is a text", `{"labels":{"commit":"12e4567890"},"annotations":{"a":"` + hang + `"}}`, nil},
		"LabelName":        {"its name too", `{"labels":{"` + hang + `":""}}`, nil},
		"LabelDeeper":      {"what is below is none", `{"labels":{"a":{"b":"` + hang + `"}}}`, errNumber},
		"LabelAsName":      {"a quantity of that name", `{"requests":{"labels":"` + hang + `"}}`, errNumber},
		"LabelEscaped":     {"a name that is spelt in another way is not trusted", `{"l\u0061bels":{"a":"` + hang + `"}}`, errNumber},
		"LabelLonger":      {"nor one that only begins so", `{"annotationss":{"a":"` + hang + `"}}`, errNumber},
		"LabelBefore":      {"nor what comes behind them", `{"labels":{},"a":{"b":"` + hang + `"}}`, errNumber},
		"LabelArray":       {"nor an array of that name", `{"labels":["` + hang + `"]}`, errNumber},
		"Environment":      {"the value of a variable is a text", `{"env":[{"name":"COMMIT","value":"12e4567890"}]}`, nil},
		"Value":            {"a quantity called value is none", `{"requests":{"value":"` + hang + `"}}`, errNumber},
		"ValueNumber":      {"nor is a number", `[{"value":` + hang + `}]`, errNumber},
		"ValueName":        {"nor another member", `[{"value":"a","` + hang + `":"a"}]`, errNumber},
		"OrdinaryQuantity": {"what users write", `{"a":"4Gi","b":100,"c":-1.5e3,"d":"1e18","e":"12345678-1234"}`, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, size := range []int{1, 7, 4096, len(tc.body)} {
				if err := scanIn(tc.body, size); tc.want == nil {
					require.NoError(t, err, "%s, in pieces of %d", tc.reason, size)
				} else {
					require.Equal(t, tc.want, err, "%s, in pieces of %d", tc.reason, size)
				}
			}
		})
	}
}

// scanIn scans a body in pieces of the given size.
func scanIn(body string, size int) error {
	var s scanner

	for size = max(1, size); len(body) > 0; body = body[min(size, len(body)):] {
		if err := s.scan([]byte(body[:min(size, len(body))])); err != nil {
			return err
		}
	}

	return nil
}

// TestNoQuantityIsTakenForText walks the types that responses are decoded into: where the scanner
// treats strings as plain text, no type may have a quantity, neither by the name of a field nor in
// a map whose keys a server chooses.
func TestNoQuantityIsTakenForText(t *testing.T) {
	t.Parallel()

	seen := map[reflect.Type]bool{}
	for _, of := range []any{
		corev1.Node{},
		corev1.Pod{},
		corev1.Event{},
		corev1.Secret{},
		corev1.ResourceQuota{},
		corev1.LimitRange{},
		storagev1.StorageClass{},
		kubevirtv1.VirtualMachine{},
		kubevirtv1.VirtualMachineInstance{},
		kubevirtv1.VirtualMachineInstanceMigration{},
		kubevirtv1.KubeVirt{},
		cdiv1beta1.DataVolume{},
		cdiv1beta1.StorageProfile{},
		cdiv1beta1.CDI{},
		cdiv1beta1.CDIConfig{},
		cdiv1beta1.DataSource{},
		instancetypev1beta1.VirtualMachineInstancetype{},
		instancetypev1beta1.VirtualMachineClusterInstancetype{},
	} {
		requireTexts(t, reflect.TypeOf(of), false, seen)
	}

	require.Greater(t, len(seen), 300, "KubeVirt's types are among them")
}

// requireTexts walks a type. entry is set for an element of an array.
func requireTexts(t *testing.T, of reflect.Type, entry bool, seen map[reflect.Type]bool) {
	t.Helper()

	switch of.Kind() {
	case reflect.Pointer:
		requireTexts(t, of.Elem(), entry, seen)
	case reflect.Slice:
		require.False(t, entry && holdsQuantities(of.Elem()), "%s", of)
		requireTexts(t, of.Elem(), true, seen)
	case reflect.Map:
		require.False(t, entry && isQuantity(of.Elem()), "%s in an array may hold a quantity called value", of)
		require.False(t, holdsQuantities(of.Elem()), "%s may hold quantities in labels", of)
		requireTexts(t, of.Elem(), false, seen)
	case reflect.Struct:
		requireTextsInFields(t, of, entry, seen)
	default:
	}
}

func requireTextsInFields(t *testing.T, of reflect.Type, entry bool, seen map[reflect.Type]bool) {
	t.Helper()

	again := seen[of]
	if again && !entry {
		return
	}

	seen[of] = true

	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		require.False(t, entry && name == "value" && isQuantity(f.Type), "%s.%s", of, name)
		require.False(t, (name == "labels" || name == "annotations") && holdsQuantities(f.Type), "%s.%s", of, name)

		if !again {
			requireTexts(t, f.Type, false, seen)
		}
	}
}

func isQuantity(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}

	return of == reflect.TypeFor[resource.Quantity]()
}

// holdsQuantities reports whether a member of the type is a quantity.
func holdsQuantities(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}

	switch of.Kind() {
	case reflect.Map:
		return isQuantity(of.Elem())
	case reflect.Struct:
		for i := range of.NumField() {
			if isQuantity(of.Field(i).Type) {
				return true
			}
		}
	default:
	}

	return false
}

// BenchmarkScanner scans a page of VirtualMachines.
func BenchmarkScanner(b *testing.B) {
	vm := &kubevirtv1.VirtualMachine{}
	vm.Name, vm.Namespace, vm.UID = "shoot--project--name-worker-z1-5d8f7-abcde", "machines", "9b2b4ea6-8f3a-4b1c-9d5e-0f1a2b3c4d5e"
	vm.Labels, vm.Annotations = map[string]string{}, map[string]string{}

	for i := range 20 {
		vm.Labels[fmt.Sprintf("example.com/label-%d", i)] = "value"
		vm.Annotations[fmt.Sprintf("example.com/annotation-%d", i)] = strings.Repeat("text ", 20)
	}

	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}

	body, err := json.Marshal(kubevirtv1.VirtualMachineList{Items: []kubevirtv1.VirtualMachine{*vm, *vm, *vm, *vm}})
	if err != nil {
		b.Fatal(err)
	}

	b.SetBytes(int64(len(body)))
	b.ReportAllocs()

	for b.Loop() {
		var s scanner
		if err := s.scan(body); err != nil {
			b.Fatal(err)
		}
	}
}
