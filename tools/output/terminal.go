// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fatih/color"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	// textWidth is the number of columns of pages and of the help, unless a terminal has another width.
	textWidth = 120
	// leastWidth is the smallest width that texts are wrapped to.
	leastWidth = 60
	// hangingIndent is the indent of the second and further lines of a result.
	hangingIndent = 11
)

// terminal is what a command prints to. The zero value is for files and pipes: pages are textWidth wide,
// results have one line each, and nothing is colored.
type terminal struct {
	// width is the number of columns; zero if the output is no terminal.
	width   int
	colored bool
}

// terminalOf returns the terminal of an output. There are no colors with $NO_COLOR or TERM=dumb.
func terminalOf(out io.Writer) terminal {
	file, ok := out.(*os.File)
	if !ok {
		return terminal{}
	}

	width, _, err := term.GetSize(int(file.Fd())) //nolint:gosec // The descriptor is an int.
	if err != nil || width == 0 {
		return terminal{}
	}

	return terminal{width: max(width, leastWidth), colored: !color.NoColor}
}

// pageWidth returns the number of columns of a page.
func (t terminal) pageWidth() int {
	if t.width == 0 {
		return textWidth
	}

	return t.width
}

// Width returns the number of columns of a page on an output.
func Width(out io.Writer) int { return terminalOf(out).pageWidth() }

// paint colors a text.
func (t terminal) paint(text string, attributes ...color.Attribute) string {
	if !t.colored {
		return text
	}

	painter := color.New(attributes...)
	painter.EnableColor()

	return painter.Sprint(text)
}

// level returns the level of a result in its column.
func (t terminal) level(level any) string {
	text := fmt.Sprintf("%-8s", fmt.Sprint(level))

	switch strings.TrimSpace(text) {
	case "error":
		return t.paint(text, color.FgRed, color.Bold)
	case "warning":
		return t.paint(text, color.FgYellow)
	default:
		return t.paint(text, color.FgGreen)
	}
}

// heading returns a heading of a page.
func (t terminal) heading(text string) string {
	switch {
	case strings.HasPrefix(text, "NO CAUSE"):
		return t.paint(text, color.FgGreen, color.Bold)
	case strings.HasPrefix(text, "SUSPECTED"):
		return t.paint(text, color.FgYellow, color.Bold)
	case strings.HasPrefix(text, "NOT DIAGNOSED"), strings.Contains(text, "CAUSE "):
		return t.paint(text, color.FgRed, color.Bold)
	default:
		return t.paint(text, color.Bold)
	}
}

// hang returns a text that begins in a column of a line, wrapped to the width of the terminal.
func (t terminal) hang(column int, text string) string {
	if t.width == 0 {
		return text
	}

	indent := min(column, hangingIndent)
	before := strings.Repeat("x", max(0, column-indent-1)) // stands for the beginning of the line
	lines := wrapped(before+" "+text, t.width-indent)
	lines[0] = strings.TrimSpace(strings.TrimPrefix(lines[0], before))

	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// WrapHelp wraps the help of all commands to the width of the terminal.
func WrapHelp(root *cobra.Command) {
	help := root.HelpFunc()

	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		width := terminalOf(cmd.OutOrStdout()).pageWidth()
		cmd.Long = reflowed(cmd.Long, width)
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", width)))
		help(cmd, args)
	})
}

// reflowed wraps the paragraphs of a text. An indented line is a paragraph of its own.
func reflowed(text string, width int) string {
	var lines, paragraph []string

	flush := func() {
		if len(paragraph) > 0 {
			lines = append(lines, wrapped(strings.Join(paragraph, " "), width)...)
		}

		paragraph = nil
	}

	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")

		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, " "):
			flush()

			lines = append(lines, line)
		default:
			paragraph = append(paragraph, line)
		}
	}

	flush()

	return strings.Join(lines, "\n")
}
