// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
)

const (
	// AnnotationAddress is the annotation of a Machine that records the Address of its
	// VirtualMachine, or AddressAbandoned.
	AnnotationAddress = "kubevirt.machine.gardener.cloud/address"
	// AddressAbandoned is the value of AnnotationAddress with which an operator abandons a machine:
	// if its VirtualMachine is not found, it counts as deleted, wherever it was.
	AddressAbandoned = "abandoned"

	// maxAddressServer and maxAddressUID bound parts of an address, in bytes. A UUID has 36.
	maxAddressServer, maxAddressUID = 1024, 64
	// maxRecordedAddress bounds the annotation's value, in bytes. JSON may encode one byte as six.
	maxRecordedAddress = 8192
)

// Address locates and identifies a VirtualMachine. If a VirtualMachine is not found at an address
// other than its own, the driver must not conclude that it was deleted.
type Address struct {
	// Server identifies the provider cluster's API server.
	Server string `json:"server"`
	// Namespace is the VirtualMachine's namespace.
	Namespace string `json:"namespace"`
	// Cluster and Role are the tags by which the driver recognizes the VirtualMachine.
	Cluster string `json:"cluster"`
	Role    string `json:"role"`
	// UID is the VirtualMachine's UID.
	UID types.UID `json:"uid"`
}

// SamePlace reports whether two addresses differ at most in the UID.
func (a Address) SamePlace(b Address) bool {
	a.UID = ""
	b.UID = ""

	return a == b
}

// String formats the address for messages; it omits the UID.
func (a Address) String() string {
	return fmt.Sprintf("namespace %s of %s with the tags %s and %s", a.Namespace, shortened(a.Server), a.Cluster, a.Role)
}

// shortened truncates a long URL, so that an error's text has room for the remedy.
func shortened(server string) string {
	const longest = 120
	if len(server) <= longest {
		return server
	}

	return server[:longest] + "…"
}

// Encode returns a valid address in the format that DecodeAddress reads.
func (a Address) Encode() string {
	raw, err := json.Marshal(a)
	if err != nil {
		panic(err) // A struct of strings can always be encoded.
	}

	return string(raw)
}

// DecodeAddress decodes the result of Encode. It ignores fields that a later version adds, so that
// an earlier version can still read the annotation. The error does not quote the value.
func DecodeAddress(value string) (Address, error) {
	var a Address

	if len(value) > maxRecordedAddress {
		return Address{}, fmt.Errorf("it is longer than %d bytes", maxRecordedAddress)
	}

	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(value), &a); err != nil {
		return Address{}, errors.New("it is not the JSON of an address")
	}

	if err := a.Validate(); err != nil {
		return Address{}, err
	}

	return a, nil
}

// Validate returns the reason why an address cannot be recorded, or nil.
func (a Address) Validate() error {
	id := Identity{Cluster: a.Cluster, Role: a.Role}

	switch {
	case len(a.Server) > maxAddressServer || !printable(a.Server):
		return errors.New("its server is missing, too long or not an address")
	case len(validation.IsDNS1123Label(a.Namespace)) > 0:
		return errors.New("its namespace is missing or not a namespace's name")
	case !id.Valid():
		return errors.New("its tags are missing or not label values")
	case len(a.UID) > maxAddressUID || !printable(string(a.UID)):
		return errors.New("its UID is missing or not a UID")
	default:
		return nil
	}
}

// printable reports whether a text has only visible ASCII characters, and at least one.
func printable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// RecordedAddress is the address that a Machine records, by default in the annotation AnnotationAddress.
type RecordedAddress struct {
	// Address is the recorded address; empty if Abandoned or Fault is set.
	Address
	// Abandoned is set if an operator has abandoned the machine.
	Abandoned bool
	// Fault is why the annotation cannot be read; empty if it can be.
	Fault string
}

// RecordedAddressOf returns the address recorded in a Machine's annotations, or nil if there is none.
func RecordedAddressOf(annotations map[string]string) *RecordedAddress {
	value, recorded := annotations[AnnotationAddress]

	switch {
	case !recorded:
		return nil
	case value == AddressAbandoned:
		return &RecordedAddress{Abandoned: true}
	}

	address, err := DecodeAddress(value)
	if err != nil {
		return &RecordedAddress{Fault: err.Error()}
	}

	return &RecordedAddress{Address: address}
}

// Differs reports whether the machine was, or may have been, created at a place other than this
// one. Without it, the place is not known, and Differs returns false.
func (r *RecordedAddress) Differs(from Address) bool {
	return r != nil && !r.Abandoned && !r.SamePlace(from)
}

// IsAbandoned reports whether an operator has abandoned the machine.
func (r *RecordedAddress) IsAbandoned() bool {
	return r != nil && r.Abandoned
}

// Names reports whether it names this VirtualMachine.
func (r *RecordedAddress) Names(virtualMachine types.UID) bool {
	return r != nil && r.UID != "" && r.UID == virtualMachine
}

// MayBe reports whether one of the driver's VirtualMachines at another place may be the recorded
// one. An annotation that cannot be read excludes none.
func (r *RecordedAddress) MayBe(virtualMachine types.UID) bool {
	return r.Names(virtualMachine) || r != nil && r.Fault != ""
}

// MovedError keeps DeleteMachine from deleting a VirtualMachine before its new address is
// recorded: a later call would no longer find it there, and would have to assume that it is
// still at its recorded address.
type MovedError struct {
	// To is the address to record.
	To Address
}

// Moved returns a MovedError as an Error of the kind ErrConflict.
func Moved(to Address) error {
	return Errorf(ErrConflict, "%w", &MovedError{To: to})
}

// Error implements error.
func (e *MovedError) Error() string {
	return "the VirtualMachine is deleted from " + e.To.String() + " as soon as the Machine records this new address"
}
