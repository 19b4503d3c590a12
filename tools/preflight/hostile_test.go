// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// evil is the content of every text from a hostile provider cluster. It contains control sequences
// for terminals, and commands for a shell that it is pasted into.
const evil = "x\x1b[2J\r\n\u202ea'; rm -rf ~ #`rm -rf ~`$(rm -rf ~)|\"rm -rf ~"

// TestNewCommand_HostileCluster shows that texts from a provider cluster do not move a terminal's
// cursor, do not run as commands when a remedy is pasted into a shell, and do not flood the screen.
func TestNewCommand_HostileCluster(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		status int
		// length is the minimum length of the texts.
		length int
	}{
		"Objects":     {reason: "it answers", status: http.StatusOK},
		"LongObjects": {reason: "it answers at length", status: http.StatusOK, length: 100 << 10},
		"Errors":      {reason: "it does not answer", status: http.StatusInternalServerError},
		"LongErrors":  {reason: "nor at length", status: http.StatusInternalServerError, length: 100 << 10},
		"Forbidden":   {reason: "it refuses", status: http.StatusForbidden},
		"Missing":     {reason: "nothing is there", status: http.StatusNotFound},
		"Invalid":     {reason: "it judges", status: http.StatusUnprocessableEntity},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			text := evil + strings.Repeat("\n#"+evil, tc.length/len(evil))
			server := httptest.NewTLSServer(hostileCluster(tc.status, text))
			t.Cleanup(server.Close)

			kubeconfig := commands.KubeconfigOf(server)
			class := strings.Replace(commands.Valid, "containerDisk: {image: example.com/image}", "storage: {storageClassName: gone, resources: {requests: {storage: 1Gi}}}, source: {pvc: {name: i, namespace: other}}", 1)

			for _, format := range []string{output.Text, "json", "yaml"} {
				out, err := run(t, commands.WithSecret(class, kubeconfig), "preflight", "-f", "-", "-o", format)
				require.Equal(t, output.ExitInvalid, output.ExitCode(err))
				require.Less(t, len(out), 100_000, tc.reason)
				require.Equal(t, -1, strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), "%q", out)
				require.Contains(t, out, "rm -rf", "the texts are shown")

				for _, remedy := range remediesOf(t, format, out) {
					require.NotContains(t, unquoted(remedy), "rm -rf", remedy)
				}
			}
		})
	}
}

// TestCheck_TwoClusters shows that machines are never checked against the state of another
// cluster, and that the checks do not need the name of the user.
func TestCheck_TwoClusters(t *testing.T) {
	t.Parallel()

	cluster := func(uid string) *httptest.Server {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")

			if path.Base(r.URL.Path) == "kubevirts" {
				list := &kubevirtv1.KubeVirtList{Items: make([]kubevirtv1.KubeVirt, 1)}
				list.Items[0].UID = types.UID(uid)
				_ = json.NewEncoder(w).Encode(list)

				return
			}

			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(&metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure,
				Code:     http.StatusForbidden,
				Reason:   metav1.StatusReasonForbidden,
			})
		}))
		t.Cleanup(server.Close)

		return server
	}

	for name, tc := range map[string]struct {
		uid  string
		want string
	}{"Same": {uid: "one", want: checks.Admin}, "Another": {uid: "two", want: checks.Driver}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			admin := commands.Write(t, "admin.yaml", commands.KubeconfigOf(cluster(tc.uid)))
			out, err := run(t, commands.WithSecret(commands.Valid, commands.KubeconfigOf(cluster("one"))), "preflight", "-f", "-", "-o", "json", "--provider-kubeconfig", admin)
			require.Equal(t, output.ExitInvalid, output.ExitCode(err))

			var got report

			require.NoError(t, json.Unmarshal([]byte(out), &got))

			errors := 0
			unknown := 0

			for _, r := range got.Clusters[0].Results {
				switch {
				case r.Check == "credentials" && r.Level == checks.Error:
					errors++

					require.Contains(t, r.Message, "is not the cluster of the machines")
				case r.Check == "credentials":
					unknown++

					require.Contains(t, r.Message, "does not return the user name")
				case r.Check == "zone":
					require.Equal(t, tc.want, r.Identity)
				}
			}

			require.Equal(t, 2, unknown)
			require.Equal(t, tc.want == checks.Driver, errors == 1)
		})
	}
}

// remediesOf extracts the remedies from the output as a user or a script does.
func remediesOf(t *testing.T, format, out string) []string {
	t.Helper()

	var (
		report   report
		remedies []string
	)

	switch format {
	case output.Text:
		for line := range strings.Lines(out) {
			if _, remedy, ok := strings.Cut(line, "  remedy: "); ok && strings.HasPrefix(line, "      ") {
				remedies = append(remedies, remedy)
			}
		}
	case "json":
		require.NoError(t, json.Unmarshal([]byte(out), &report))
	default:
		require.NoError(t, yaml.Unmarshal([]byte(out), &report))
	}

	for _, cluster := range report.Clusters {
		for _, r := range cluster.Results {
			require.Equal(t, r.Level != checks.OK, r.Remedy != "")

			remedies = append(remedies, r.Remedy)
		}
	}

	require.NotEmpty(t, remedies)

	return remedies
}

// unquoted returns the parts of a text that a shell would read outside of quotes.
func unquoted(text string) string {
	var (
		out    strings.Builder
		inside bool
	)

	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			inside = !inside
		case text[i] == '\\' && !inside:
			i++
		case !inside:
			out.WriteByte(text[i])
		}
	}

	return out.String()
}

// hostileCluster accepts all logins, and answers every other request with a status and a text.
func hostileCluster(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any

		last := path.Base(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")

		switch {
		case last == "selfsubjectreviews":
			review := &authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
			review.Status.UserInfo.Username = "system:serviceaccount:" + text
			answer = review
		case status == http.StatusOK && r.Method == http.MethodGet:
			answer = hostileObject(last, text)
		}

		if answer == nil {
			w.WriteHeader(max(status, http.StatusCreated))

			answer = &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure,
				Message:  text,
				Reason:   metav1.StatusReason(text),
				Code:     int32(max(status, http.StatusCreated)),
				Details: &metav1.StatusDetails{
					Name: text,
					Kind: text,
					Causes: []metav1.StatusCause{{
						Type:    metav1.CauseTypeFieldValueInvalid,
						Field:   "spec." + text,
						Message: text,
					}},
				},
			}
		}

		_ = json.NewEncoder(w).Encode(answer) // The client may have disconnected.
	})
}

// hostileObject returns a list whose texts are all the same; nil for other kinds.
func hostileObject(name, text string) any {
	of := map[string]func() any{
		"kubevirts": func() any { return filled(&kubevirtv1.KubeVirtList{}, text) },
		"cdis":      func() any { return filled(&cdiv1beta1.CDIList{}, text) },
		"nodes":     func() any { return filled(&corev1.NodeList{}, text) },
		"pods":      func() any { return filled(&corev1.PodList{}, text) },
		"storageclasses": func() any {
			return filled(&storagev1.StorageClassList{}, text)
		},
		"storageprofiles": func() any { return filled(&cdiv1beta1.StorageProfileList{}, text) },
		"resourcequotas": func() any {
			list := &corev1.ResourceQuotaList{Items: make([]corev1.ResourceQuota, 1)}
			list.Items[0].Name = text
			list.Items[0].Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}

			return list
		},
		"limitranges": func() any {
			list := &corev1.LimitRangeList{Items: make([]corev1.LimitRange, 1)}
			list.Items[0].Name = text
			list.Items[0].Spec.Limits = []corev1.LimitRangeItem{{
				Type: corev1.LimitTypePod,
				Max:  corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")},
			}}

			return list
		},
	}

	if object := of[name]; object != nil {
		return object()
	}

	return nil
}

// filled sets every string field of an object to a text. Each list
// has one entry, and the depth is limited.
func filled[T any](object T, text string) T {
	fill(reflect.ValueOf(object).Elem(), text, 0)

	return object
}

func fill(v reflect.Value, text string, depth int) {
	const deepest = 6

	switch v.Interface().(type) {
	case resource.Quantity, metav1.Time, metav1.TypeMeta, metav1.FieldsV1, metav1.ListMeta:
		return
	}

	switch v.Kind() { //nolint:exhaustive // Other kinds contain no texts, or none that are read.
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() && depth < deepest {
				fill(field, text, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 && depth < deepest {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text, depth+1)
		}
	}
}
