package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// secret is a Secret of a file. No message quotes its content.
type secret struct {
	file      string
	namespace string
	name      string
	data      map[string][]byte
	// readable is false if data is unknown.
	readable bool
	errors   []string
}

func readSecret(d document) secret {
	var (
		object corev1.Secret
		found  = secret{file: d.file, readable: true}
	)

	// The decoders' messages quote the invalid bytes, so they are not shown.
	strictErrs, err := kjson.UnmarshalStrict(d.raw, &object)

	switch {
	case err != nil:
		found.readable = false
		found.errors = append(found.errors, "it cannot be parsed; the values of data must be base64, those of stringData plain text")
		object = corev1.Secret{ObjectMeta: metadataOf(d.raw)}
	case len(strictErrs) > 0 || len(d.duplicates) > 0:
		found.errors = append(found.errors,
			"it has a duplicate field, or one that Secrets do not have; the fields are metadata, type, immutable, data and stringData")
	}

	found.namespace, found.name = object.Namespace, object.Name
	found.data = map[string][]byte{}
	maps.Copy(found.data, object.Data)

	for key, value := range object.StringData {
		found.data[key] = []byte(value)
	}

	if size := found.size(); size > corev1.MaxSecretSize {
		found.errors = append(found.errors, fmt.Sprintf("its values have %d bytes in total, but the API server accepts at most %d (1 MiB); shorten them",
			size, corev1.MaxSecretSize))
	}

	return found
}

// size returns the total size of the values in bytes, which the API server limits.
func (s *secret) size() int {
	size := 0
	for _, value := range s.data {
		size += len(value)
	}

	return size
}

func metadataOf(raw []byte) metav1.ObjectMeta {
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}

	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return metav1.ObjectMeta{}
	}

	return object.Metadata
}

// find returns the Secret that a reference refers to. A Secret without a namespace matches every
// namespace, since it can be applied to any.
func find(secrets []secret, ref corev1.SecretReference) *secret {
	for i := range secrets {
		if s := &secrets[i]; s.name == ref.Name && (s.namespace == ref.Namespace || s.namespace == "") {
			return s
		}
	}

	return nil
}

// secretData is the data that machine-controller-manager passes to the driver: that of both
// Secrets, where credentialsSecretRef takes precedence.
type secretData struct {
	values map[string][]byte
	// from is the origin of each value.
	from map[string]origin
	// known are the Secrets found in the files. A missing key is missing in all of them.
	known []origin
	// complete is false if one of the Secrets is unknown.
	complete bool

	errors   []finding
	warnings []finding
}

// origin is a reference to a known Secret.
type origin struct {
	field string
	name  string
}

// secretsOf reads the Secrets that a class refers to.
func secretsOf(class machineClass, secrets []secret) *secretData {
	d := &secretData{values: map[string][]byte{}, from: map[string]origin{}, complete: true}

	d.add("secretRef", class.SecretRef, secrets)
	d.add("credentialsSecretRef", class.CredentialsSecretRef, secrets)
	d.check(apiv1alpha1.SecretKeyKubeconfig, d.checkKubeconfig)
	d.check(apiv1alpha1.SecretKeyUserData, func(origin, []byte) {})

	return d
}

func (d *secretData) add(fieldName string, ref *corev1.SecretReference, secrets []secret) {
	if ref == nil {
		return
	}

	if ref.Name == "" || ref.Namespace == "" { // an error of the class
		d.complete = false

		return
	}

	from := origin{field: fieldName, name: "Secret " + ref.Namespace + "/" + ref.Name}

	s := find(secrets, *ref)
	if s == nil {
		d.complete = false
		d.warnings = append(d.warnings, finding{fieldName, from.name + " is not in the files, so its keys are not checked"})

		return
	}

	for _, text := range s.errors {
		d.errors = append(d.errors, finding{fieldName, from.name + " (" + s.file + "): " + text})
	}

	d.complete = d.complete && s.readable
	d.known = append(d.known, from)

	for key, value := range s.data {
		d.values[key], d.from[key] = value, from
	}
}

// check passes an existing value to inspect, and reports a missing one.
func (d *secretData) check(key string, inspect func(origin, []byte)) {
	value := d.values[key]

	switch {
	case len(value) > 0:
		inspect(d.from[key], value)
	case d.complete && len(d.known) > 0:
		message := "the key " + key + " is missing or empty in " + names(d.known)
		if similar := d.similar(key); similar != "" {
			message += "; rename its key " + similar + " to " + key
		}

		d.errors = append(d.errors, finding{d.known[0].field, message})
	case d.similar(key) != "": // An unknown Secret may have the right key.
		from := d.from[d.similar(key)]
		d.warnings = append(d.warnings, finding{from.field, from.name + ": the key " + d.similar(key) + " is ignored; did you mean " + key + "?"})
	}
}

// similar returns a key that is almost the wanted one. It is
// safe to print because of the similarity.
func (d *secretData) similar(key string) string {
	return apiv1alpha1.Closest(key, slices.DeleteFunc(slices.Sorted(maps.Keys(d.values)), func(other string) bool {
		return other == key
	}))
}

func names(list []origin) string {
	var all []string
	for _, o := range list {
		all = append(all, o.name)
	}

	return strings.Join(all, " and ")
}

func (d *secretData) checkKubeconfig(from origin, value []byte) {
	config, namespace, err := kubeconfig.RESTConfig(value)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.errors = append(d.errors, finding{from.field, from.name + ", key kubeconfig: " + strings.TrimSpace(line)})
		}

		return
	}

	// The cause is dropped: it refers to bytes of the kubeconfig.
	if _, err := rest.TLSConfigFor(config); err != nil {
		d.errors = append(d.errors, finding{from.field, from.name + ", key kubeconfig: its certificates or its client key are invalid; " +
			"they must be base64-encoded PEM, and the client key must match the client certificate"})
	}

	if namespace == metav1.NamespaceDefault {
		d.warnings = append(d.warnings, finding{from.field, from.name +
			", key kubeconfig: machines would be created in the namespace default; if that is not intended, set another one in the current context"})
	}
}
