// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// ErrIdentity is the error of an object with a name or a UID that no API server accepts. Its text has
// neither.
var ErrIdentity = errors.New("the response has an object with a name, a namespace or a UID that no API server accepts")

// maxName bounds the length of names: that of an Event is the name of its object, and a suffix.
const maxName = 2 * utilvalidation.DNS1123SubdomainMaxLength

// Check returns an error that wraps ErrIdentity if an API server accepts no object with this name, namespace
// or UID. They may be empty: reviews have none.
func Check(object runtime.Object) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("%w: %T has none", ErrIdentity, object)
	}

	uid := string(m.GetUID())
	namespace := m.GetNamespace()

	// API servers set a UUID, which is a DNS label. Some kinds, such as Events, accept each name that can be a
	// part of a path (k8s.io/apiserver/pkg/registry/rest, BeforeCreate).
	if len(path.IsValidPathSegmentName(m.GetName())) > 0 || len(m.GetName()) > maxName || strings.ContainsFunc(m.GetName(), notPrinted) ||
		namespace != "" && len(utilvalidation.IsDNS1123Label(namespace)) > 0 ||
		uid != "" && len(utilvalidation.IsDNS1123Label(uid)) > 0 {
		return ErrIdentity
	}

	return nil
}

func notPrinted(r rune) bool { return !unicode.IsPrint(r) }
