// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// flight is a run of mcm-kubevirt preflight for the shipped class in the idle zone, with an
// administrator's kubeconfig in addition to the driver's.
type flight struct {
	// file is the manifest with the class.
	file string
	// spec sets fields of the providerSpec, by path, to YAML values; an empty
	// value removes the field.
	spec map[string]string
	// driver and admin are kubeconfigs. Without admin, only the driver's is used.
	driver, admin []byte
	args          []string
}

// outcome is the result of a run.
type outcome struct {
	code    int
	text    string
	reports []checks.Report
}

// results returns the results of all provider clusters.
func (o *outcome) results() []checks.Result {
	var all []checks.Result
	for _, r := range o.reports {
		all = append(all, r.Results...)
	}

	return all
}

// bad returns the results that are not OK.
func (o *outcome) bad() []checks.Result {
	return slices.DeleteFunc(o.results(), func(r checks.Result) bool { return r.Level == checks.OK })
}

// newFlight returns a run without defects.
func newFlight(t *testing.T, s *harness.Shoot) *flight {
	t.Helper()

	admin, err := harness.Lab().Provider.Kubeconfig(harness.Lab().Provider.Config().BearerToken, s.ProviderNamespace)
	require.NoError(t, err)

	driver, err := os.ReadFile(s.ProviderKubeconfigFile) // Without canaries, one of which expires soon.
	require.NoError(t, err)

	return &flight{
		file:   "example/machineclasses.yaml",
		driver: driver,
		admin:  admin,
		spec: map[string]string{
			"zone":                   suite.IdleZone,
			"virtualMachineTemplate": `{spec: {template: {spec: {tolerations: [{key: ` + suite.IdleTaint + `, operator: Exists}]}}}}`,
		},
	}
}

// class returns the shipped class with the changes.
func (f *flight) class(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	var class map[string]any

	require.NoError(t, yaml.UnmarshalStrict(s.Manifest(t, f.file)[0], &class))

	for path, text := range f.spec {
		fields := append([]string{"providerSpec"}, strings.Split(path, ".")...)

		if text == "" {
			unstructured.RemoveNestedField(class, fields...)

			continue
		}

		var value any

		require.NoError(t, yaml.Unmarshal([]byte(text), &value), text)
		require.NoError(t, unstructured.SetNestedField(class, value, fields...))
	}

	raw, err := json.Marshal(class)
	require.NoError(t, err)

	return raw
}

// run runs the command, as a user does.
func (f *flight) run(ctx context.Context, t *testing.T, s *harness.Shoot) *outcome {
	t.Helper()

	secret, err := json.Marshal(map[string]any{
		"kind": "Secret", "metadata": map[string]any{"name": "cloudprovider", "namespace": s.Namespace},
		"data": map[string][]byte{"kubeconfig": f.driver, "userData": []byte("# " + suite.UserDataCanary)},
	})
	require.NoError(t, err)

	args := append([]string{"preflight", "-f", write(t, f.class(t, s)), "-f", write(t, secret)}, f.args...)
	if f.admin != nil {
		args = append(args, "--provider-kubeconfig="+write(t, f.admin))
	}

	return runPreflight(ctx, t, args...)
}

func runPreflight(ctx context.Context, t *testing.T, args ...string) *outcome {
	t.Helper()

	var stdout, stderr bytes.Buffer

	command := exec.CommandContext(ctx, harness.RemoteDriver(), append(args, "--output=json")...)
	command.Stdout = &stdout
	command.Stderr = &stderr
	ended := command.Run()

	var exit *exec.ExitError
	if !errors.As(ended, &exit) {
		require.NoError(t, ended, stderr.String())
	}

	var read struct {
		Clusters []checks.Report `json:"providerClusters"`
	}

	require.NoError(t, json.Unmarshal(stdout.Bytes(), &read), stderr.String())
	require.NotContains(t, stdout.String()+stderr.String(), suite.UserDataCanary)

	for line := range strings.Lines(stderr.String()) {
		require.True(t, strings.HasPrefix(line, "mcm-kubevirt: "), "the output must not contain log lines: %s", line)
	}

	return &outcome{code: command.ProcessState.ExitCode(), text: stdout.String(), reports: read.Clusters}
}

func write(t *testing.T, content []byte) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "file.json")
	require.NoError(t, os.WriteFile(file, content, 0o600))

	return file
}

// between inserts a proxy in front of the real API server. It can answer requests
// itself, or change answers.
func (f *flight) between(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool, change func(*http.Response)) {
	t.Helper()

	forward := harness.NewForwarder(t, harness.Lab().Provider.Config())
	forward.ModifyResponse = func(resp *http.Response) error {
		change(resp)

		return nil
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding") // Keeps answers uncompressed, so that they can be changed.

		if !answer(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)

	f.driver = harness.RedirectKubeconfig(t, f.driver, server)
	if f.admin != nil {
		f.admin = harness.RedirectKubeconfig(t, f.admin, server)
	}
}

func unanswered(http.ResponseWriter, *http.Request) bool { return false }

func asAnswered(*http.Response) {}

// edit changes the object in an answer.
func edit(resp *http.Response, change func(object map[string]any)) {
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err) // The server closes the connection.
	}

	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		panic(err)
	}

	change(object)

	if raw, err = json.Marshal(object); err != nil {
		panic(err)
	}

	resp.Body = io.NopCloser(bytes.NewReader(raw))
	resp.ContentLength = int64(len(raw))
	resp.Header.Set("Content-Length", strconv.Itoa(len(raw)))
}

// madeVirtualMachine reports whether a response contains a VirtualMachine
// whose creation was accepted.
func madeVirtualMachine(resp *http.Response) bool {
	return resp.StatusCode == http.StatusCreated && harness.CallOf(resp.Request.Method, resp.Request.URL) == "create virtualmachines"
}

// awaitProfile waits until CDI knows a storage class.
func awaitProfile(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()
	harness.Eventually(t, "CDI knows StorageClass "+name, func(ctx context.Context) (bool, error) {
		profile, err := s.CDI.CdiV1beta1().StorageProfiles().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return err == nil && profile.Status.CloneStrategy != nil, err
	})
}
