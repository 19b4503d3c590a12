package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rule is a row of refusals.md.
type rule struct{ field, remedy string }

var (
	ruleRow = regexp.MustCompile("(?m)^\\| [^|]*\\| `([^`]+)`[^|]* \\| ([^|]+) \\|$")
	// index matches the index or the key of an entry of a list.
	index = regexp.MustCompile(`\[[^\]]*\]`)
)

// TestRefusals requires a row of refusals.md for each mistake that the integration tests make, with the
// same field and remedy.
func TestRefusals(t *testing.T) {
	t.Parallel()

	var rules []rule
	for _, row := range ruleRow.FindAllStringSubmatch(content(t, "usage/refusals.md"), -1) {
		rules = append(rules, rule{field: index.ReplaceAllString(row[1], "[]"), remedy: strings.ReplaceAll(row[2], "`", "")})
	}

	require.NotEmpty(t, rules)

	for _, m := range mistakes(t) {
		require.True(t, slices.ContainsFunc(rules, func(r rule) bool {
			return r.field == index.ReplaceAllString(m.field, "[]") && strings.Contains(r.remedy, m.remedy)
		}), "refusals.md has no row for %s with the remedy: %s", m.field, m.remedy)
	}
}

// mistakes returns the fields and remedies of the table in admission_test.go.
func mistakes(t *testing.T) []rule {
	t.Helper()

	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "../test/integration/admission_test.go", nil, 0)
	require.NoError(t, err)

	// Without the imports there are errors; constants and the types of the file have none.
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	_, _ = (&types.Config{Error: func(error) {}}).Check("integration", set, []*ast.File{file}, info)

	const fieldElement, remedyElement, elements = 3, 4, 5

	var found []rule

	for expression, value := range info.Types {
		literal, ok := expression.(*ast.CompositeLit)
		if !ok || types.TypeString(value.Type, nil) != "integration.mistake" {
			continue
		}

		require.Len(t, literal.Elts, elements)

		text := func(i int) string { return constant.StringVal(info.Types[literal.Elts[i]].Value) }
		found = append(found, rule{field: text(fieldElement), remedy: text(remedyElement)})
	}

	require.NotEmpty(t, found)

	return found
}
