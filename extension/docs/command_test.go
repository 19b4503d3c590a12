// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"strings"
)

// flagsOf returns the flags of kubectl and helm that the pages use, and whether they have a value.
func flagsOf(program string) map[string]bool {
	if program == "helm" {
		return map[string]bool{"kubeconfig": true, "namespace": true, "set": true, "install": false}
	}

	return map[string]bool{
		"kubeconfig": true, "namespace": true, "output": true, "selector": true, "filename": true, "f": true, "k": true, "patch": true,
		"from-file": true, "from-literal": true, "duration": true, "bound-object-kind": true, "bound-object-name": true, "dry-run": true,
		"label-columns": true, "tcp": true,
		"server-side": false, "force-conflicts": false, "watch": false, "minify": false, "flatten": false, "all-namespaces": false, "ignore-not-found": false,
	}
}

// command is a call of kubectl or helm.
type command struct {
	call

	verb  string
	rest  []string
	flags map[string][]string
}

func parse(c call) (command, error) {
	parsed := command{call: c, flags: map[string][]string{}}
	known := flagsOf(c.args[0])

	for args := c.args[1:]; len(args) > 0; args = args[1:] {
		if !strings.HasPrefix(args[0], "-") || args[0] == "-" {
			parsed.rest = append(parsed.rest, args[0])

			continue
		}

		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")

		hasValue, found := known[name]
		if !found || given && !hasValue {
			return command{}, fmt.Errorf("flag %s", args[0])
		}

		if hasValue && !given {
			if len(args) == 1 {
				return command{}, fmt.Errorf("flag %s has no value", args[0])
			}

			value, args = args[1], args[1:]
		}

		parsed.flags[name] = append(parsed.flags[name], value)
	}

	if len(parsed.rest) == 0 {
		return command{}, errors.New("no verb")
	}

	parsed.verb, parsed.rest = parsed.rest[0], parsed.rest[1:]

	return parsed, nil
}

// value returns the last value of a flag; empty if it is not set.
func (c command) value(name string) string {
	if values := c.flags[name]; len(values) > 0 {
		return values[len(values)-1]
	}

	return ""
}

// isNew reports whether `kubectl create` creates an object, instead of a token of one.
func (c command) isNew() bool { return len(c.rest) > 1 && c.rest[0] != "token" }

// created returns the resource and the name of the object that `kubectl create` creates.
func (c command) created() (resource, name string) {
	return resources()[c.rest[0]], c.rest[len(c.rest)-1]
}
