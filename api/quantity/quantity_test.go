// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package quantity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

func TestExcessive(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		text   string
		want   bool
	}{
		"Ordinary":      {"what users write", "4Gi", false},
		"Fraction":      {"a fraction of a core", "100m", false},
		"Exponent":      {"Kubernetes writes such quantities", "1e18", false},
		"ThreeDigits":   {"the most that is cheap", "1e999", false},
		"FourDigits":    {"one more", "1e1000", true},
		"Hang":          {"parsing takes hours", "1234567890123456789012e2000000000", true},
		"Small":         {"few digits: only comparing takes hours", "1e2000000000", true},
		"Negative":      {"rounding takes as long", "1e-2000000000", true},
		"Signs":         {"signs do not hide it", "-1E+2000000000", true},
		"Point":         {"a number may begin with its point", ".5e2000000000", true},
		"Spaces":        {"apimachinery trims them", " \t\r\n1e2000000000 ", true},
		"UnicodeSpaces": {"these too", "\u2003\u00a01e2000000000\u3000", true},
		"Zeros":         {"leading zeros count, which costs nothing", "1e0000000001", true},
		"OddSuffix":     {"apimachinery reads all letters first", "1kKe2000000000", true},
		"Digits":        {"as many as there may be", strings.Repeat("9", quantity.MaxDigits), false},
		"TooManyDigits": {"one more", strings.Repeat("9", quantity.MaxDigits+1), true},
		"Decimals":      {"they count too", "0." + strings.Repeat("9", quantity.MaxDigits), true},
		"Empty":         {"no number", "", false},
		"UUID":          {"a text that begins like a number", "12345678-1234-1234-1234-123456789012", false},
		"Version":       {"two points", "1.2.3", false},
		"Hash":          {"digits and letters", strings.Repeat("9", 100) + "f", false},
		"Address":       {"neither", "fe80::1", false},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, quantity.Excessive(tc.text), tc.reason)
		})
	}
}

// FuzzExcessive parses, adds and prints texts that are not excessive: that must be cheap.
func FuzzExcessive(f *testing.F) {
	for _, seed := range []string{"4Gi", "1e999", " 1e999\u2003", "-.5E-12", "1kKe9", "0x1", "1e+", "9999999999999999999999999999999999999999Ei"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, text string) {
		if quantity.Excessive(text) {
			return
		}

		began := time.Now()

		if parsed, err := resource.ParseQuantity(strings.TrimSpace(text)); err == nil {
			parsed.Add(resource.MustParse("1Gi"))
			_ = parsed.String()
		}

		require.Less(t, time.Since(began), 5*time.Second, "half a millisecond, and seconds on a machine under load")
	})
}
