// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var here = spi.Address{Server: "https://provider.example.com:6443/k8s/c-1", Namespace: "machines", Cluster: "shoot--x", Role: "node", UID: "u-1"}

func TestRecordedAddress_RoundTrip(t *testing.T) {
	t.Parallel()

	const stored = `{"server":"https://provider.example.com:6443/k8s/c-1","namespace":"machines","cluster":"shoot--x","role":"node","uid":"u-1"}`
	require.JSONEq(t, stored, here.Encode(), "Machines keep it: the format is frozen")

	got, err := spi.DecodeAddress(stored)
	require.NoError(t, err)
	require.Equal(t, here, got)
}

func TestRecordedAddressOf(t *testing.T) {
	t.Parallel()

	broken := func(from, to string) string { return strings.Replace(here.Encode(), from, to, 1) }

	tests := map[string]struct {
		reason string
		value  string
		fault  string
	}{
		"Valid":         {reason: "what Encode returned", value: here.Encode()},
		"LaterVersion":  {reason: "a field of a later version must not stop the version before it", value: broken(`{`, `{"zone":"a",`)},
		"Empty":         {reason: "nothing to read", value: "", fault: "not the JSON"},
		"Text":          {reason: "a typo of the word that gives a machine up", value: "abandon", fault: "not the JSON"},
		"Null":          {reason: "JSON without an address", value: "null", fault: "server"},
		"Trailing":      {reason: "two addresses are none", value: here.Encode() + here.Encode(), fault: "not the JSON"},
		"WrongType":     {reason: "a number is no server", value: broken(`"https://provider.example.com:6443/k8s/c-1"`, "1"), fault: "not the JSON"},
		"WrongCase":     {reason: "fields are spelled as they are written", value: broken("server", "Server"), fault: "server"},
		"ServerSpace":   {reason: "no URL has one", value: broken("/k8s", " /k8s"), fault: "server"},
		"NoNamespace":   {reason: "every VirtualMachine has one", value: broken(`"machines"`, `""`), fault: "namespace"},
		"NoTag":         {reason: "a VirtualMachine without tags is not ours", value: broken(`"shoot--x"`, `""`), fault: "tags"},
		"TagNoLabel":    {reason: "it would be another selector", value: broken(`"shoot--x"`, `"a,b!=c"`), fault: "tags"},
		"NoUID":         {reason: "a move could not be told from another VirtualMachine", value: broken(`"u-1"`, `""`), fault: "UID"},
		"LongUID":       {reason: "it is bounded", value: broken("u-1", strings.Repeat("u", 65)), fault: "UID"},
		"LongServer":    {reason: "it is bounded", value: broken("k8s", strings.Repeat("k", 1024)), fault: "server"},
		"Long":          {reason: "it is bounded", value: strings.Repeat(" ", 8192) + here.Encode(), fault: "longer"},
		"ControlLetter": {reason: "it is shown on terminals", value: broken("k8s", `\u001b`), fault: "server"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := spi.RecordedAddressOf(map[string]string{spi.AnnotationAddress: tc.value})
			if tc.fault == "" {
				require.Equal(t, &spi.RecordedAddress{Address: here}, got, tc.reason)

				return
			}

			require.Contains(t, got.Fault, tc.fault, tc.reason)
			require.Zero(t, got.Address, tc.reason)
			require.True(t, got.Differs(here), "what cannot be read may be anywhere")
		})
	}

	require.Nil(t, spi.RecordedAddressOf(nil))
	require.Equal(t, &spi.RecordedAddress{Abandoned: true}, spi.RecordedAddressOf(map[string]string{spi.AnnotationAddress: "abandoned"}))
}

func TestRecordedAddress_Differs(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(*spi.Address)
		want   bool
	}{
		"Same":      {"nothing has changed", func(*spi.Address) {}, false},
		"Other":     {"another VirtualMachine of the same name is no other place", func(a *spi.Address) { a.UID = "u-2" }, false},
		"Server":    {"another server, or another cluster behind the same gateway", func(a *spi.Address) { a.Server += "2" }, true},
		"Namespace": {"another namespace", func(a *spi.Address) { a.Namespace = "other" }, true},
		"Cluster":   {"another selector", func(a *spi.Address) { a.Cluster = "shoot--y" }, true},
		"Role":      {"another selector", func(a *spi.Address) { a.Role = "worker" }, true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			now := here
			tc.change(&now)
			require.Equal(t, tc.want, (&spi.RecordedAddress{Address: here}).Differs(now), tc.reason)
			require.False(t, (*spi.RecordedAddress)(nil).Differs(now), "nothing was recorded")
			require.False(t, (&spi.RecordedAddress{Abandoned: true}).Differs(now), "it was given up")
		})
	}
}

func FuzzDecodeAddress(f *testing.F) {
	for _, value := range []string{"", "null", "abandoned", "{}", here.Encode(), here.Encode() + "x", `{"server":1}`, strings.Repeat("[", 10_000)} {
		f.Add(value)
	}

	f.Fuzz(func(t *testing.T, value string) {
		got, err := spi.DecodeAddress(value)
		if err != nil {
			require.Zero(t, got)

			return
		}

		again, err := spi.DecodeAddress(got.Encode())
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
