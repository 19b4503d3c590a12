// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// hang is a quantity that takes hours to parse.
const hang = "1234567890123456789012e2000000000"

func TestEstimate(t *testing.T) {
	t.Parallel()

	members := func(n int) string { return "{" + strings.Repeat(`"a":"",`, n-1) + `"a":""}` }

	tests := map[string]struct {
		reason string
		body   string
		want   error
	}{
		"Objects":          {"as many as there may be", `{"a":{"b":[{}` + strings.Repeat(",{}", testObjects-1) + `]}}`, nil},
		"TooManyObjects":   {"more", `{"a":{"b":[{}` + strings.Repeat(",{}", testObjects+10) + `]}}`, errMemory},
		"TooManyItems":     {"items of a list are larger", `{"items":[` + strings.Repeat("{},", maxKept/costOfItem) + `{}]}`, errMemory},
		"TooManyElements":  {"other elements take less", `[0` + strings.Repeat(",0", maxKept/costOfElement) + `]`, errMemory},
		"Nothing":          {"they may be nothing", `{"items":[null` + strings.Repeat(",null", maxKept/costOfElement) + `]}`, errMemory},
		"Everywhere":       {"all arrays count", `{"a":[` + strings.Repeat(`{"b":[]},`, testObjects) + `{}]}`, errMemory},
		"Members":          {"as many as there may be", members(maxKept / (costOfMember + 8*costOfByte)), nil},
		"TooManyMembers":   {"more", members(maxKept / costOfMember), errMemory},
		"MembersOfMany":    {"of all objects together", `{"a":[` + members(maxKept/costOfMember/2) + `,` + members(maxKept/costOfMember/2) + `]}`, errMemory},
		"Bytes":            {"as many as there may be", `"` + strings.Repeat("x", maxKept/costOfByte-2) + `"`, nil},
		"TooManyBytes":     {"one more", `"` + strings.Repeat("x", maxKept/costOfByte-1) + `"`, errMemory},
		"Space":            {"white space too", strings.Repeat(" ", maxKept/costOfByte+1), errMemory},
		"Depth":            {"as deep as there may be", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), nil},
		"TooDeep":          {"one more", strings.Repeat(`{"a":`, maxDepth+1), errDepth},
		"Text":             {"a text is one element", `["` + strings.Repeat(`,\",\\`, 10_000) + `"]`, nil},
		"AfterText":        {"it ends at its quote", `["\\"` + strings.Repeat(`,""`, maxKept/costOfElement) + `]`, errMemory},
		"Documents":        {"a response is one document", strings.Repeat(`{"object":{"a":[1,2,3]}}`+"\n", 10*testObjects), errMemory},
		"Unopened":         {"what is no JSON is the decoder's to refuse", `]}],` + strings.Repeat(",", 100_000), nil},
		"Quantity":         {"it takes hours to parse", `{"memory":{"guest":"` + hang + `"}}`, errNumber},
		"QuantityNumber":   {"without quotes too", `{"guest":` + hang + `}`, errNumber},
		"QuantityLast":     {"in an array too", `[1,` + hang + `]`, errNumber},
		"QuantityEscaped":  {"it is the same text to a decoder", `{"memory":{"guest":"1\u0065\u0032000000000"}}`, errNumber},
		"QuantitySpaces":   {"apimachinery trims them", `{"memory":{"guest":" \t\u2003` + "\u00a0" + hang + `\n "}}`, errNumber},
		"QuantityOfList":   {"the server chooses the name", `{"requests":{"anything at all":"` + hang + `"}}`, errNumber},
		"QuantityEvent":    {"in a later event of a watch", `{"a":1}` + "\n" + `{"object":{"used":{"a":"` + hang + `"}}}`, errNumber},
		"QuantityAfter":    {"in an object that was left and one that was not", `{"requests":{"a":{"b":"1"},"c":"` + hang + `"}}`, errNumber},
		"NameCase":         {"KubeVirt's own decoders ignore case", `{"Memory":{"gUEST":"` + hang + `"}}`, errNumber},
		"NameEscaped":      {"it is the same name to a decoder", `{"memory":{"gu\u0065st":"` + hang + `"}}`, errNumber},
		"NameFolded":       {"encoding/json takes ſ for s", `{"memory":{"gueſt":"` + hang + `"}}`, errNumber},
		"ObjectEscaped":    {"it is the same object to a decoder", `{"m\u0065mory":{"guest":"` + hang + `"}}`, errNumber},
		"ObjectFolded":     {"encoding/json takes ſ for s", `{"requeſts":{"memory":"` + hang + `"}}`, errNumber},
		"Digits":           {"long numbers take long too", `{"used":{"a":"` + strings.Repeat("9", quantity.MaxDigits+1) + `"}}`, errNumber},
		"Label":            {"a label is no quantity", `{"labels":{"commit":"12e4567890","guest":"1e5000"},"annotations":{"a":"` + hang + `"}}`, nil},
		"Zone":             {"a short hash as the name of a zone", `{"matchExpressions":[{"key":"zone","operator":"In","values":["12e45678"]}]}`, nil},
		"NodeSelector":     {"nor is a selector", `{"nodeSelector":{"zone":"12e45678"}}`, nil},
		"NodeName":         {"nor the name of a node", `{"metadata":{"name":"12e45678"},"status":{"nodeName":"12e45678"}}`, nil},
		"MAC":              {"nor a MAC address without colons", `{"interfaces":[{"macAddress":"5254001e3456","mac":"5254001e3456"}]}`, nil},
		"Environment":      {"nor the value of a variable", `{"env":[{"name":"COMMIT","value":"12e4567890"}]}`, nil},
		"Name":             {"nor a name", `{"requests":{"` + hang + `":"1"}}`, nil},
		"LongName":         {"an object with a longer name than any that holds quantities", `{"persistentVolumeClaimInfos":{"claimName":"12e45678"}}`, nil},
		"Behind":           {"what comes behind a quantity", `{"requests":{"cpu":"1"},"zone":"12e45678"}`, nil},
		"Alone":            {"what is no object is no quantity's", `"12e45678"`, nil},
		"OrdinaryQuantity": {"what users write", `{"a":"4Gi","b":100,"c":-1.5e3,"d":"1e18","e":"12345678-1234"}`, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if err := check(tc.body); tc.want == nil {
				require.NoError(t, err, tc.reason)
			} else {
				require.Equal(t, tc.want, err, tc.reason)
			}
		})
	}
}

// testObjects is the number of empty objects in an array that a response may have.
const testObjects = maxKept/(costOfObject+costOfElement+3*costOfByte) - 1

// TestEstimate_Cost has the cost of documents, without that of their bytes.
func TestEstimate_Cost(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, text string
		want         int64
	}{
		"Text":     {reason: "only its bytes count", text: `"a,b"`},
		"Object":   {reason: "its caller has it", text: `{}`},
		"Member":   {reason: "it may be an entry of a map", text: `{"a":1}`, want: costOfMember},
		"Members":  {reason: "each counts", text: `{"a":1,"b":{"c":2}}`, want: 3 * costOfMember},
		"Array":    {reason: "it may have an element", text: `[]`, want: costOfElement},
		"Elements": {reason: "each counts", text: `[1,2,3]`, want: 3 * costOfElement},
		"Objects":  {reason: "they are larger than other elements", text: `[{},{}]`, want: 2 * (costOfElement + costOfObject)},
		"Items":    {reason: "those of a list are the largest", text: `{"items":[{},{}]}`, want: costOfMember + 2*(costOfElement+costOfItem)},
		"Inner":    {reason: "an array of an item is no list", text: `{"items":[{"a":[{}]}]}`, want: 2*costOfMember + 2*costOfElement + costOfItem + costOfObject},
		"Nested":   {reason: "an array of arrays has no objects", text: `[[1],[2]]`, want: 4 * costOfElement},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cost, err := estimate([]byte(tc.text))
			require.NoError(t, err)
			require.Equal(t, tc.want, cost-int64(len(tc.text))*costOfByte, tc.reason)
		})
	}
}

// check is estimate, with the error of a response that takes too much memory.
func check(body string) error {
	cost, err := estimate([]byte(body))
	if err == nil && cost > maxKept {
		return errMemory
	}

	return err
}

// TestEstimate_FindsEveryQuantity walks all types that responses may be decoded into, and scans each
// of their quantities with the name of the object around it, the only parts of its path that the
// estimate knows.
func TestEstimate_FindsEveryQuantity(t *testing.T) {
	t.Parallel()

	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kubernetesscheme.AddToScheme, kubevirtv1.AddToScheme, instancetypev1beta1.AddToScheme, cdiv1beta1.AddToScheme,
	} {
		require.NoError(t, add(types))
	}

	w := walk{t: t, seen: map[visited]bool{}, found: map[string]bool{}}

	for kind, of := range types.AllKnownTypes() {
		// The driver reads no metrics, no claims of devices, and no capacities of storage.
		if kind.Group != "autoscaling" && kind.Group != "resource.k8s.io" && !strings.HasPrefix(kind.Kind, "CSIStorageCapacity") {
			w.visit(of, "", "")
		}
	}

	require.Greater(t, len(w.seen), 1000, "Kubernetes' and KubeVirt's types are among them")

	w.found["status.restoresize"] = true // The module does not know VolumeSnapshots.

	for object, fields := range quantities {
		for _, name := range append(fields.names, "any")[:max(1, len(fields.names))] {
			require.True(t, w.found[object+"."+name], "no type has %s.%s", object, name)
		}
	}
}

// walk visits types. found has the quantities, in lower case.
type walk struct {
	t     *testing.T
	seen  map[visited]bool
	found map[string]bool
}

// visited is a type in a field of this name.
type visited struct {
	of   reflect.Type
	name string
}

// visit visits the type of a field with this name in an object with that name.
func (w *walk) visit(of reflect.Type, object, name string) {
	w.t.Helper()

	if of == reflect.TypeFor[resource.Quantity]() {
		w.found[strings.ToLower(object+"."+name)] = true
		require.Equal(w.t, errNumber, check(fmt.Sprintf(`{%q:{%q:%q}}`, object, name, hang)), "%s.%s is not read as a quantity", object, name)
	}

	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		w.visit(of.Elem(), object, name)
	case reflect.Map:
		w.visit(of.Elem(), name, "any")
	case reflect.Struct:
		w.fields(of, object, name)
	default:
	}
}

func (w *walk) fields(of reflect.Type, object, name string) {
	w.t.Helper()

	if w.seen[visited{of, name}] {
		return
	}

	w.seen[visited{of, name}] = true

	for i := range of.NumField() {
		f := of.Field(i)

		if json, _, _ := strings.Cut(f.Tag.Get("json"), ","); json == "" && f.Anonymous {
			w.visit(f.Type, object, name)
		} else {
			w.visit(f.Type, name, json)
		}
	}
}

// BenchmarkEstimate scans a page of VirtualMachines.
func BenchmarkEstimate(b *testing.B) {
	vm := &kubevirtv1.VirtualMachine{}
	vm.Name = "shoot--project--name-worker-z1-5d8f7-abcde"
	vm.Namespace = "machines"
	vm.UID = "9b2b4ea6-8f3a-4b1c-9d5e-0f1a2b3c4d5e"
	vm.Labels = map[string]string{}
	vm.Annotations = map[string]string{}

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
		if _, err := estimate(body); err != nil {
			b.Fatal(err)
		}
	}
}
