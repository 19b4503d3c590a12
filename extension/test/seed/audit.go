// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is the part of an audit event (audit.k8s.io/v1) that the package reads.
type request struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	User      struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	ObjectRef struct {
		Namespace   string `json:"namespace"`
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp metav1.MicroTime  `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

// ended reports whether an event is the second one of a watch: the API server logs it when it starts, too.
func (r *request) ended() bool { return r.Verb == "watch" && r.Stage == "ResponseComplete" }

// eachRequest calls a function once for each request in the audit log of the API server of a kubeconfig. The
// lab writes the log beside the kubeconfig (test/lab/controlplane).
func eachRequest(kubeconfig string, call func(*request)) error {
	// The API server splits a large log into parts with the time in their names.
	files, err := filepath.Glob(filepath.Join(filepath.Dir(kubeconfig), "audit*.log"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find the audit log beside %s: none, %w", kubeconfig, err)
	}

	for _, name := range files {
		if err := eachRequestIn(name, call); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}

	return nil
}

func eachRequestIn(name string, call func(*request)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only

	for decoder := json.NewDecoder(file); ; {
		r := request{}

		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // The last line may be incomplete.
			return nil
		}

		if err != nil {
			return err
		}

		if !r.ended() {
			call(&r)
		}
	}
}

// Requests returns the requests of the extension with the shoot's credentials to the provider cluster
// since a time, as verb, resource and name.
func (s *Botanist) Requests(since time.Time) ([]string, error) {
	var requests []string

	err := eachRequest(s.seed.state.ProviderKubeconfig, func(r *request) {
		if strings.HasPrefix(r.UserAgent, "gardener-extension-") && r.RequestReceivedTimestamp.After(since) && r.User.Username == s.account.username() {
			requests = append(requests, r.Verb+" "+r.ObjectRef.Resource+" "+r.ObjectRef.Name)
		}
	})

	return requests, err
}

// CountRequests returns the number of the extension's requests between two times: to the seed with a ServiceAccount, and
// to the provider cluster for all shoots.
func (s *Seed) CountRequests(account string, from, to time.Time) (toSeed, toProvider int, err error) {
	within := func(r *request) bool {
		return r.RequestReceivedTimestamp.After(from) && r.RequestReceivedTimestamp.Time.Before(to)
	}

	err = eachRequest(s.state.ControlKubeconfig, func(r *request) {
		if within(r) && r.User.Username == "system:serviceaccount:"+ExtensionNamespace+":"+account {
			toSeed++
		}
	})

	err = errors.Join(err, eachRequest(s.state.ProviderKubeconfig, func(r *request) {
		if within(r) && strings.HasPrefix(r.UserAgent, "gardener-extension-") {
			toProvider++
		}
	}))

	return toSeed, toProvider, err
}

// Writes returns those of Requests that change objects.
func (s *Botanist) Writes(since time.Time) ([]string, error) {
	requests, err := s.Requests(since)

	return slices.DeleteFunc(requests, func(request string) bool {
		verb, _, _ := strings.Cut(request, " ")

		// Access reviews are created, but not stored.
		return slices.Contains([]string{"get", "list", "watch"}, verb) || strings.HasPrefix(request, "create selfsubject")
	}), err
}
