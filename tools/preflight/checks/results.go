// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// Level is the severity of a result.
type Level string

const (
	// OK means that the subject is as required.
	OK Level = "ok"
	// Warning means that the subject may be intended, makes some machines
	// slower or fewer, or could not be checked.
	Warning Level = "warning"
	// Error means that machines cannot be created or cannot run.
	Error Level = "error"
)

// Result is the outcome of one check of one subject.
type Result struct {
	// Class is the MachineClass that the result is about; empty if it is about several.
	Class string `json:"class,omitempty"`
	// Classes are the MachineClasses that share the result; empty if it is about the whole cluster.
	Classes []string `json:"classes,omitempty"`
	// Check is one of the names in docs/troubleshooting.md.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Subject is the checked item: usually a kind and a name.
	Subject string `json:"subject"`
	// Message describes the outcome.
	Message string `json:"message"`
	// Remedy is the command to run or the field to change. It is set unless the level is OK. Names
	// from untrusted input are quoted in it.
	Remedy string `json:"remedy,omitempty"`
	// Identity is the name of the report's identity that sent
	// the requests; empty if none were needed.
	Identity string `json:"identity,omitempty"`
}

// Report is about one provider cluster and namespace.
type Report struct {
	// Server is the host, and the port if given, of the API
	// server; empty if no kubeconfig can be parsed.
	Server string `json:"server"`
	// Namespace is the namespace of the machines.
	Namespace  string     `json:"namespace"`
	Identities []Identity `json:"identities"`
	Results    []Result   `json:"results"`
}

// subject is the item that a check is about, usually a kind and a name. It creates the results of
// the check and sanitizes their texts, since those of classes, kubeconfigs and provider clusters
// are untrusted.
type subject struct {
	// check is the name of the check if it is not the one in list.go, identity one of Driver, Admin and empty.
	check, identity string
	name            string
}

// about returns a subject that the reader sends requests for.
func (r *reader) about(name string) subject { return subject{identity: r.Name, name: name} }

func (s subject) result(level Level, message, remedy string) []Result {
	return []Result{{
		Check:    s.check,
		Level:    level,
		Subject:  statustext.Printable(s.name),
		Message:  statustext.Printable(message),
		Remedy:   statustext.Printable(remedy),
		Identity: s.identity,
	}}
}

func (s subject) ok(message string) []Result           { return s.result(OK, message, "") }
func (s subject) warn(message, remedy string) []Result { return s.result(Warning, message, remedy) }
func (s subject) fail(message, remedy string) []Result { return s.result(Error, message, remedy) }

// notChecked is the result of a check whose request failed. That an identity may not read an object
// does not mean that it is missing: an admin can run the command.
func (s subject) notChecked(err error, command string) []Result {
	if errors.Is(err, providerapi.ErrListTooLarge) {
		return s.warn("not calculated: "+err.Error(), "as an admin of the provider cluster run: "+command)
	}

	err = providerapi.Explain(err)

	if errors.Is(err, spi.ErrForbidden) {
		return s.warn(fmt.Sprintf("not checked: the %s's account may not read it", s.identity),
			"as an admin of the provider cluster run: "+command+"; or set --provider-kubeconfig to the kubeconfig of an admin")
	}

	return s.fail("not checked: "+err.Error(), "retry when the provider cluster responds, or run: "+command)
}

// deduplicated moves a problem that several classes share to the results
// for the whole cluster, which come first.
func deduplicated(results []Result) []Result {
	// problem identifies results that differ only in their classes.
	type problem struct {
		check, subject, message, remedy, identity string
		level                                     Level
	}

	var kept []Result

	first := map[problem]int{}

	for _, r := range results {
		p := problem{r.Check, r.Subject, r.Message, r.Remedy, r.Identity, r.Level}
		i, known := first[p]

		switch {
		case r.Level == OK || r.Class == "":
			kept = append(kept, r)
		case !known:
			first[p] = len(kept)
			kept = append(kept, r)
		case kept[i].Class != "" && kept[i].Class != r.Class:
			kept[i].Classes = []string{kept[i].Class, r.Class}
			kept[i].Class = ""
		case kept[i].Class == "" && !slices.Contains(kept[i].Classes, r.Class):
			kept[i].Classes = append(kept[i].Classes, r.Class)
		}
	}

	slices.SortStableFunc(kept, func(a, b Result) int { return cmp.Compare(min(len(a.Class), 1), min(len(b.Class), 1)) })

	return kept
}
