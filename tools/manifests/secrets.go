// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
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

// secret is a Secret in a file. Messages never quote its content.
type secret struct {
	corev1.Secret

	document document
	// readable is false if its data is unknown.
	readable bool
	errors   []string
}

func readSecret(d document) secret {
	s := secret{document: d, readable: true}

	// The decoders' messages quote the invalid bytes, so they are not shown.
	strictErrs, err := kjson.UnmarshalStrict(d.raw, &s.Secret)

	switch {
	case err != nil:
		var object metav1.PartialObjectMetadata

		_ = kjson.UnmarshalCaseSensitivePreserveInts(d.raw, &object) // Without a name, no class refers to it.
		s.Secret = corev1.Secret{ObjectMeta: object.ObjectMeta}
		s.readable = false
		s.errors = append(s.errors, "it cannot be parsed; the values of data must be base64, those of stringData plain text")
	case len(strictErrs) > 0 || len(d.duplicates) > 0:
		s.errors = append(s.errors,
			"it has a duplicate field, or one that Secrets do not have; the fields are metadata, type, immutable, data and stringData")
	}

	if s.Data == nil {
		s.Data = map[string][]byte{}
	}

	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}

	size := 0
	for _, value := range s.Data {
		size += len(value)
	}

	if size > corev1.MaxSecretSize {
		s.errors = append(s.errors, fmt.Sprintf("its values have %d bytes in total, but the API server accepts at most %d (1 MiB); shorten them",
			size, corev1.MaxSecretSize))
	}

	return s
}

// fileData is the Secret data that machine-controller-manager would pass to the driver, read from the given files.
// Problems are added to report.
type fileData struct {
	Values map[string][]byte
	// from is the origin of each value.
	From map[string]origin
	// known are the Secrets found in the files. A missing key is missing in all of them.
	known []origin
	// complete is false if one of the Secrets is unknown.
	complete bool
	report   *Report
}

// origin is a reference to a known Secret.
type origin struct {
	field string
	Name  string
	// file and line are those of the value.
	file string
	line int
}

// DataOf reads the Secrets that a class refers to.
func (m *Objects) DataOf(class Class, report *Report) *fileData {
	d := &fileData{Values: map[string][]byte{}, From: map[string]origin{}, complete: true, report: report}

	d.add("secretRef", class.SecretRef, m.secrets)
	d.add("credentialsSecretRef", class.CredentialsSecretRef, m.secrets)
	d.require(apiv1alpha1.SecretKeyUserData)
	report.userData = d.From[apiv1alpha1.SecretKeyUserData]

	if d.require(apiv1alpha1.SecretKeyKubeconfig) {
		d.checkKubeconfig()
	}

	return d
}

func (d *fileData) add(path string, ref *corev1.SecretReference, secrets []secret) {
	if ref == nil {
		return
	}

	from := origin{field: path, Name: "Secret " + ref.Namespace + "/" + ref.Name}

	// A Secret without a namespace can be applied to any.
	at := slices.IndexFunc(secrets, func(s secret) bool {
		return s.Name == ref.Name && (s.Namespace == ref.Namespace || s.Namespace == "")
	})

	switch {
	case ref.Name == "" || ref.Namespace == "": // an error of the class
		d.complete = false

		return
	case at < 0:
		d.complete = false
		d.report.warn(path, from.Name+" is not in the files, so its keys are not checked")

		return
	}

	s := &secrets[at]
	for _, text := range s.errors {
		d.report.Fail(path, from.Name+" ("+s.document.file+"): "+text)
	}

	from.file = s.document.file
	d.complete = d.complete && s.readable
	d.known = append(d.known, from)

	for key, value := range s.Data {
		from.line = s.document.lines.line("data." + key)
		if _, plain := s.StringData[key]; plain {
			from.line = s.document.lines.line("stringData." + key)
		}

		d.Values[key] = value
		d.From[key] = from
	}
}

// require reports whether there is a value for a key, and adds a missing one to the report.
func (d *fileData) require(key string) bool {
	if len(d.Values[key]) > 0 {
		return true
	}

	// A key that is almost the required one is safe to print.
	similar := apiv1alpha1.Closest(key, slices.DeleteFunc(slices.Sorted(maps.Keys(d.Values)), func(other string) bool { return other == key }))

	switch {
	case d.complete && len(d.known) > 0:
		message := "the key " + key + " is missing or empty in " + d.known[0].Name
		if len(d.known) > 1 {
			message += " and " + d.known[1].Name
		}

		if similar != "" {
			message += "; rename its key " + similar + " to " + key
		}

		d.report.Fail(d.known[0].field, message)
	case similar != "": // An unknown Secret may have the right key.
		d.report.warn(d.From[similar].field, d.From[similar].Name+": the key "+similar+" is ignored; did you mean "+key+"?")
	}

	return false
}

func (d *fileData) checkKubeconfig() {
	path := d.From[apiv1alpha1.SecretKeyKubeconfig].field
	prefix := d.From[apiv1alpha1.SecretKeyKubeconfig].Name + ", key kubeconfig: "

	config, namespace, err := kubeconfig.RESTConfig(d.Values[apiv1alpha1.SecretKeyKubeconfig])
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.report.Fail(path, prefix+strings.TrimSpace(line))
		}

		return
	}

	// The cause is dropped: it refers to bytes of the kubeconfig.
	if _, err := rest.TLSConfigFor(config); err != nil {
		d.report.Fail(path, prefix+"its certificates or its client key are invalid; "+
			"they must be base64-encoded PEM, and the client key must match the client certificate")
	}

	// A driver may run in its provider cluster and use the name of a service, but it does not run on the host of
	// the user.
	if local := (*kubeconfig.InternalServerError)(nil); errors.As(kubeconfig.CheckLocalServer(config.Host), &local) {
		d.report.warn(path, prefix+"the server is "+local.Kind+": from the driver's pod, it leads to another host; use an address that the pod reaches")
	}

	if namespace == metav1.NamespaceDefault {
		d.report.warn(path, prefix+
			"machines would be created in the namespace default; if that is not intended, set another one in the current context")
	}
}
