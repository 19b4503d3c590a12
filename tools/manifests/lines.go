// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fieldStep matches a step of a field's path: a name, or an index or key in brackets, which may contain dots.
var fieldStep = regexp.MustCompile(`\[[^\]]*\]|[^.\[\]]+`)

// fieldLines finds the lines of fields in a file. The zero value knows none.
type fieldLines struct {
	node *yaml.Node
	// before is the number of lines of the file before the text of the node.
	before int
}

// linesOf returns the lines of the fields in a text, which begins after this many lines of its file.
func linesOf(text []byte, before int) fieldLines {
	node := &yaml.Node{}
	if err := yaml.Unmarshal(text, node); err != nil || len(node.Content) == 0 {
		return fieldLines{}
	}

	return fieldLines{node: node.Content[0], before: before}
}

// item returns the lines in an item of a List.
func (l fieldLines) item(index int) fieldLines {
	_, items := childOf(l.node, "items")
	_, item := childOf(items, strconv.Itoa(index))

	return fieldLines{node: item, before: l.before}
}

// line returns the line of a field or, if it is missing, of the object that lacks it; zero if it is unknown.
func (l fieldLines) line(path string) int {
	if l.node == nil {
		return 0
	}

	node, line := l.node, l.node.Line

	for _, step := range fieldStep.FindAllString(path, -1) {
		key, value := childOf(node, strings.Trim(step, "[]"))
		if value == nil {
			break
		}

		node = value
		line = key.Line
	}

	return l.before + line
}

// childOf returns the key and the value of a field of an object, or an entry of a list as both; nil if there
// is none.
func childOf(node *yaml.Node, step string) (key, value *yaml.Node) {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}

	switch {
	case node == nil:
		return nil, nil
	case node.Kind == yaml.SequenceNode:
		index, err := strconv.Atoi(step)
		if err != nil || index < 0 || index >= len(node.Content) {
			return nil, nil
		}

		return node.Content[index], node.Content[index]
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	}

	return nil, nil
}
