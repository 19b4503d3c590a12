// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// shippedRights are the manifests with the only Roles of the lab's identities.
var shippedRights = []string{
	"control-namespace/rbac.yaml", "target/rbac.yaml", "provider-namespace/rbac.yaml",
	"evacuation/control-namespace/rbac.yaml", "evacuation/provider-namespace/rbac.yaml",
}

// accounts are the accounts with those Roles. Tests that need other permissions create
// accounts with other names.
var accounts = []string{"machine-controller-manager", "machine-controller", "evacuation"}

// programs are the user agents whose requests count as use of a permission. A test's own requests
// with these accounts do not count.
var programs = []string{
	"machine-controller-manager-provider-kubevirt", "machine-controller-manager", "machine-controller", "mcm-kubevirt",
}

// rights is the evaluation of the shipped Roles by the API servers' audit logs after all tests.
type rights struct {
	granted  map[string]bool // permissions, such as: machine-controller: delete virtualmachines
	used     map[string]map[string]bool
	denied   map[string]int
	purposes int // number of requests denied on purpose
	requests int
	whole    bool // whether all tests were run, so that each permission must have been used

	denials map[string]string // namespaces in which tests removed permissions, with their reasons
}

// auditRights reads the audit logs of both clusters.
func auditRights(lab *environment.Lab, records []*Record, whole bool) (*rights, error) {
	granted, err := grantedRights()
	if err != nil {
		return nil, err
	}

	r := &rights{granted: granted, used: map[string]map[string]bool{}, denied: map[string]int{}, whole: whole, denials: map[string]string{}}
	for _, record := range records {
		maps.Copy(r.denials, record.Denials)
	}

	for _, path := range []string{lab.Control.AuditLog(), lab.Provider.AuditLog()} {
		// A large log is split into parts with the time in their names.
		files, err := filepath.Glob(strings.TrimSuffix(path, ".log") + "*.log")
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("find the audit log %s: none, %w", path, err)
		}

		for _, file := range files {
			if err := r.read(file); err != nil {
				return nil, fmt.Errorf("read the audit log %s: %w", file, err)
			}
		}
	}

	return r, nil
}

// grantedRights returns each verb of each rule of the shipped Roles.
func grantedRights() (map[string]bool, error) {
	granted := map[string]bool{}

	for _, file := range shippedRights {
		raw, err := manifests.Manifests.ReadFile(file)
		if err != nil {
			return nil, err
		}

		for document := range strings.SplitSeq(string(raw), "\n---\n") {
			var role rbacv1.Role // A ClusterRole has the same fields.
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}

			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[rightOf(role.Name, verb, resource)] = true
					}
				}
			}
		}
	}

	return granted, nil
}

func rightOf(role, verb, resource string) string { return role + ": " + verb + " " + resource }

// auditEvent holds the fields read from an Event of audit.k8s.io/v1.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// allowedBy extracts the Role from RBAC's reason for a decision.
var allowedBy = regexp.MustCompile(`of (?:Cluster)?Role "([^"]+)"`)

func (r *rights) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read-only

	decoder := json.NewDecoder(file)

	for {
		var event auditEvent

		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // The last line may be incomplete.
			return nil
		}

		if err != nil {
			return err
		}

		r.event(&event)
	}
}

func (r *rights) event(event *auditEvent) {
	namespace, account, found := strings.Cut(strings.TrimPrefix(event.User.Username, "system:serviceaccount:"), ":")
	if !found || !slices.Contains(accounts, account) {
		return
	}

	r.requests++

	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}

	program, _, _ := strings.Cut(event.UserAgent, "/")

	switch event.Annotations["authorization.k8s.io/decision"] {
	case "forbid":
		if r.denials[namespace] != "" {
			r.purposes++

			return
		}

		// The resource or URI, without the object's name.
		r.denied[fmt.Sprintf("%s (%s): %s %s", event.User.Username, program, event.Verb, cmp.Or(resource, event.URI))]++
	case "allow":
		// Evacuation runs in the tests' own process, under an account with no other user.
		if !slices.Contains(programs, program) && account != "evacuation" {
			return
		}

		role := allowedBy.FindStringSubmatch(event.Annotations["authorization.k8s.io/reason"])
		if role == nil {
			return
		}

		right := rightOf(role[1], event.Verb, resource)
		if r.used[right] == nil {
			r.used[right] = map[string]bool{}
		}

		r.used[right][program] = true
	}
}

// unused returns the permissions that were never used.
func (r *rights) unused() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.granted)), func(right string) bool {
		return r.used[right] != nil
	})
}

// wrong reports whether permissions are missing or superfluous.
func (r *rights) wrong() bool {
	return len(r.denied) > 0 || r.whole && len(r.unused()) > 0
}

// String implements fmt.Stringer.
func (r *rights) String() string {
	var b strings.Builder

	used := 0
	users := map[string]int{}

	for right := range r.granted {
		if r.used[right] != nil {
			used++
		}

		for program := range r.used[right] {
			users[program]++
		}
	}

	fmt.Fprintf(&b, "permissions: %d requests; %d permissions granted, %d used; %d kinds of requests denied, and %d requests on purpose",
		r.requests, len(r.granted), used, len(r.denied), r.purposes)

	for _, program := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&b, "\n  %d of them used by %s", users[program], program)
	}

	for _, denied := range slices.Sorted(maps.Keys(r.denied)) {
		fmt.Fprintf(&b, "\n  denied %d times: %s", r.denied[denied], denied)
	}

	if !r.whole {
		b.WriteString("\n  not every test was run: unused permissions are ignored")

		return b.String()
	}

	for _, right := range r.unused() {
		fmt.Fprintf(&b, "\n  granted, and never used: %s", right)
	}

	return b.String()
}
