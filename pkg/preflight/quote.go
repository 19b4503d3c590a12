package preflight

import (
	"fmt"
	"regexp"
	"strings"
)

// plainWord matches words that mean nothing to a shell but themselves.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=\[\]-]+$`)

// quoted returns a word for a remedy, which somebody may copy into a shell. Words of a kubeconfig, a class or a provider cluster are a
// stranger's, however they ought to look: all of them go through it. A word that a program would take for one of its flags is left to
// the reader to fill in.
func quoted(word string) string {
	switch {
	case word == "", strings.HasPrefix(word, "-"):
		return "NAME"
	case plainWord.MatchString(word):
		return word
	default:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
}

// quotedList returns the first of a list of words.
func quotedList(words []string) string {
	const shown = 20

	list := make([]string, 0, shown)
	for _, word := range words[:min(len(words), shown)] {
		list = append(list, quoted(word))
	}

	if len(words) > shown {
		list = append(list, "…")
	}

	return strings.Join(list, ", ")
}

// kubectl returns a command whose words after the first few are a stranger's.
func kubectl(command string, words ...string) string {
	text := "kubectl " + command
	for _, word := range words {
		text += " " + quoted(word)
	}

	return text
}

// kubectlIn does so for a command in a namespace.
func kubectlIn(namespace, command string, words ...string) string {
	return kubectl(fmt.Sprintf("--namespace %s %s", quoted(namespace), command), words...)
}
