// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// ruleRow matches a row of refusals.md with its field.
	ruleRow = regexp.MustCompile("(?m)^\\| [^|]*\\| `([^`]+)`[^|]* \\|$")
	// index matches the index or the key of an entry of a list.
	index = regexp.MustCompile(`\[[^\]]*\]`)
)

// TestRefusals requires a row of refusals.md for the field of each mistake that the integration tests make. They
// require the remedy in the error.
func TestRefusals(t *testing.T) {
	t.Parallel()

	rules := map[string]bool{}
	for _, row := range ruleRow.FindAllStringSubmatch(content(t, "usage/refusals.md"), -1) {
		rules[index.ReplaceAllString(row[1], "[]")] = true
	}

	require.NotEmpty(t, rules)

	for _, field := range fieldsOfMistakes(t) {
		require.Contains(t, rules, index.ReplaceAllString(field, "[]"), "refusals.md has no row for this field")
	}
}

// fieldsOfMistakes returns the fields of the table in admission_test.go.
func fieldsOfMistakes(t *testing.T) []string {
	t.Helper()

	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "../test/integration/admission_test.go", nil, 0)
	require.NoError(t, err)

	// Without the imports there are errors; constants and the types of the file have none.
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	_, _ = (&types.Config{Error: func(error) {}}).Check("integration", set, []*ast.File{file}, info)

	const fieldElement, elements = 3, 5

	var found []string

	for expression, value := range info.Types {
		literal, ok := expression.(*ast.CompositeLit)
		if !ok || types.TypeString(value.Type, nil) != "integration.mistake" {
			continue
		}

		require.Len(t, literal.Elts, elements)

		found = append(found, constant.StringVal(info.Types[literal.Elts[fieldElement]].Value))
	}

	require.NotEmpty(t, found)

	return found
}
