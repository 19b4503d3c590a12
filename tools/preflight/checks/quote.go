// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	// serviceAccounts is the prefix of the user names of service accounts.
	serviceAccounts = "system:serviceaccount:"
	// mostNamed is the number of objects that a result names.
	mostNamed = 5
)

// plainWord matches words without characters that are special to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=\[\]-]+$`)

// quoted returns a word for a remedy, which may be copied into a shell. Words from a kubeconfig, a
// class or a provider cluster are untrusted, whatever format they should have, so all of them pass
// through quoted. A word that a program would parse as a flag is replaced with a placeholder.
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

// quotedList quotes and joins the first words of a list.
func quotedList(words []string) string {
	const shown = 20

	list := make([]string, len(words))
	for i, word := range words {
		list[i] = quoted(word)
	}

	return shortened(list, shown, ", ")
}

// shortened joins the first entries of a list.
func shortened(list []string, shown int, separator string) string {
	if more := len(list) - shown; more > 0 {
		list = append(list[:shown:shown], fmt.Sprintf("and %d more", more))
	}

	return strings.Join(list, separator)
}

// kubectl returns a command followed by untrusted words.
func kubectl(command string, words ...string) string {
	text := "kubectl " + command
	for _, word := range words {
		text += " " + quoted(word)
	}

	return text
}

// kubectlIn returns such a command for a namespace.
func kubectlIn(namespace, command string, words ...string) string {
	return kubectl(fmt.Sprintf("--namespace %s %s", quoted(namespace), command), words...)
}
