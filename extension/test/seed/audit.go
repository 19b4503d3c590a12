package seed

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is the part of an audit event (audit.k8s.io/v1) that the package reads.
type request struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Namespace string `json:"namespace"`
		Resource  string `json:"resource"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	RequestReceivedTimestamp metav1.MicroTime `json:"requestReceivedTimestamp"`
}

// Requests returns the requests of the extension with the shoot's credentials to the provider cluster
// since a time, as verb, resource and name.
func (s *Shoot) Requests(since time.Time) ([]string, error) {
	// The lab writes the log beside the kubeconfig (test/lab/controlplane).
	file, err := os.Open(filepath.Join(filepath.Dir(s.seed.state.ProviderKubeconfig), "audit.log"))
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read-only

	var requests []string

	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		r := request{}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}

		if strings.HasPrefix(r.UserAgent, "gardener-extension-") && r.RequestReceivedTimestamp.After(since) && r.User.Username == s.account.username() {
			requests = append(requests, r.Verb+" "+r.ObjectRef.Resource+" "+r.ObjectRef.Name)
		}
	}

	return requests, lines.Err()
}

// Writes returns those of Requests that change objects.
func (s *Shoot) Writes(since time.Time) ([]string, error) {
	requests, err := s.Requests(since)

	return slices.DeleteFunc(requests, func(request string) bool {
		verb, _, _ := strings.Cut(request, " ")

		// Access reviews are created, but not stored.
		return slices.Contains([]string{"get", "list", "watch"}, verb) || strings.HasPrefix(request, "create selfsubjectaccessreviews ")
	}), err
}
