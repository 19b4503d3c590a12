// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverv1_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

var update = flag.Bool("update", false, "add new elements to the golden file")

const golden = "testdata/contract.golden.txt"

// TestContract compares the names of methods, and the numbers, names and types of fields, on which
// clients and servers of other versions depend. -update adds new elements; it never removes any.
func TestContract(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile(golden)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}

	promised := strings.Split(strings.TrimSpace(string(raw)), "\n")
	have := contract(driverv1.File_driver_v1_driver_proto)

	for _, line := range promised {
		require.True(t, line == "" || slices.Contains(have, line), "%q is missing: clients and servers of other versions break", line)
	}

	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(have, "\n")+"\n"), 0o600))

		return
	}

	require.Equal(t, promised, have, "run make generate to add new elements")
}

// contract lists a file's methods and fields, sorted.
func contract(file protoreflect.FileDescriptor) []string {
	var lines []string

	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			lines = append(lines, fmt.Sprintf("rpc %s(%s) returns (%s)", m.FullName(), m.Input().FullName(), m.Output().FullName()))
		}
	}

	for i := range file.Messages().Len() {
		message := file.Messages().Get(i)
		for j := range message.Fields().Len() {
			f := message.Fields().Get(j)
			lines = append(lines, fmt.Sprintf("%s.%s = %d %s", message.FullName(), f.Name(), f.Number(), typeOf(f)))
		}
	}

	slices.Sort(lines)

	return lines
}

func typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map of " + typeOf(f.MapKey()) + " to " + typeOf(f.MapValue())
	case f.IsList():
		return "list of " + kindOf(f)
	default:
		return kindOf(f)
	}
}

func kindOf(f protoreflect.FieldDescriptor) string {
	if f.Message() != nil {
		return string(f.Message().FullName())
	}

	return f.Kind().String()
}

// TestSecret_DebugRedact requires the mark on secrets with which tools that print messages omit them.
func TestSecret_DebugRedact(t *testing.T) {
	t.Parallel()

	options, ok := new(driverv1.Secret).ProtoReflect().Descriptor().Fields().ByName("data").Options().(*descriptorpb.FieldOptions)
	require.True(t, ok)
	require.True(t, options.GetDebugRedact())
}
