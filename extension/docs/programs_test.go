// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault returns an error if a call refers to something that does not exist.
func (o objects) fault(c call) error {
	switch c.args[0] {
	case "make":
		return makeFault(c)
	case "go":
		return goFault(c)
	}

	parsed, err := parse(c)
	if err != nil {
		return err
	}

	if !slices.Contains(clusters(), strings.TrimPrefix(parsed.value("kubeconfig"), "/")) {
		return errors.New("the kubeconfig of no cluster")
	}

	if namespace := parsed.value("namespace"); namespace != "" && !o["namespaces"][namespace] && !placeholder.MatchString(namespace) && !strings.HasPrefix(namespace, "shoot--") {
		return fmt.Errorf("namespace %s", namespace)
	}

	if c.args[0] == "helm" {
		return o.helmFault(parsed)
	}

	return errors.Join(o.kubectlFault(parsed), o.filesFault(parsed), selectorFault(parsed.value("selector")))
}

// makeFault checks the target, the variables and the layout of an image in the Makefile.
func makeFault(c call) error {
	raw, err := os.ReadFile("../../Makefile")
	if err != nil {
		return err
	}

	makefile := string(raw)

	for _, arg := range c.args[1:] {
		name, value, variable := strings.Cut(arg, "=")

		switch {
		case !variable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`:.*## `).MatchString(makefile):
			return fmt.Errorf("target %s", name)
		case variable && !strings.Contains(makefile, "$("+name+")"):
			return fmt.Errorf("variable %s", name)
		case name == "LAYOUT" && !strings.Contains(makefile, "--output="+value+" "):
			return fmt.Errorf("layout %s", value)
		}
	}

	return nil
}

// goFault checks the packages. Tests of the commands check their flags.
func goFault(c call) error {
	for _, arg := range c.args[1:] {
		if !strings.HasPrefix(arg, "./") || strings.HasSuffix(arg, "...") {
			continue
		}

		if files, err := filepath.Glob(filepath.Join(c.folder, arg, "*.go")); err != nil || len(files) == 0 {
			return fmt.Errorf("package %s: %w", arg, errors.Join(err, os.ErrNotExist))
		}
	}

	return nil
}

// TestCommandsCanFail requires an error for each kind of mistake.
func TestCommandsCanFail(t *testing.T) {
	t.Parallel()

	root, err := filepath.Abs("../..")
	require.NoError(t, err)

	known := knownObjects(t, nil)
	require.NoError(t, known.fault(call{folder: root, args: strings.Fields("kubectl --kubeconfig /GARDEN apply -f extension/example/90-shoot.yaml")}))

	for name, c := range map[string]call{
		"No cluster":    {args: strings.Fields("kubectl get shoots")},
		"Flag":          {args: strings.Fields("kubectl --kubeconfig /GARDEN get shoots --all")},
		"Flag's value":  {args: strings.Fields("kubectl --kubeconfig /GARDEN get shoots --output")},
		"Verb":          {args: strings.Fields("kubectl --kubeconfig /GARDEN show shoots")},
		"Resource":      {args: strings.Fields("kubectl --kubeconfig /GARDEN get shot")},
		"Object":        {args: strings.Fields("kubectl --kubeconfig /GARDEN get shoot other")},
		"Account":       {args: strings.Fields("kubectl --kubeconfig /GARDEN create token other")},
		"Bound token":   {args: strings.Fields("kubectl --kubeconfig /PROVIDER create token machine-controller --bound-object-kind=Secret --bound-object-name=other")},
		"Namespace":     {args: strings.Fields("kubectl --kubeconfig /GARDEN --namespace other get shoots")},
		"Selector":      {args: strings.Fields("kubectl --kubeconfig /GARDEN get shoots --selector other=a")},
		"Identity":      {args: strings.Fields("kubectl --kubeconfig /GARDEN delete secret --selector manager-identity=other")},
		"Patch":         {args: append(strings.Fields("kubectl --kubeconfig /GARDEN patch secret core-kubevirt --patch"), `{"data": {"config": "YQ=="}}`)},
		"File":          {folder: root, args: strings.Fields("kubectl --kubeconfig /GARDEN apply -f extension/example/other.yaml")},
		"Folder":        {folder: root, args: strings.Fields("kubectl --kubeconfig /GARDEN apply -k extension/example")},
		"Empty input":   {args: strings.Fields("kubectl --kubeconfig /GARDEN apply -f -")},
		"Unknown field": {args: strings.Fields("kubectl --kubeconfig /GARDEN apply -f -"), input: []byte("apiVersion: core.gardener.cloud/v1\nkind: ControllerDeployment\nhelm: {chart: a}\n")},
		"Chart":         {args: strings.Fields("helm --kubeconfig /GARDEN upgrade --install a extension/charts/other")},
		"Value":         {args: strings.Fields("helm --kubeconfig /GARDEN upgrade --install a extension/charts/gardener-extension-provider-kubevirt --set other=a")},
		"Release":       {args: strings.Fields("helm --kubeconfig /GARDEN uninstall other")},
		"Helm's verb":   {args: strings.Fields("helm --kubeconfig /GARDEN remove other")},
		"Target":        {args: strings.Fields("make other")},
		"Variable":      {args: strings.Fields("make push-image OTHER=a")},
		"Layout":        {args: strings.Fields("make push-image LAYOUT=bin/other")},
		"Package":       {folder: root, args: strings.Fields("go run ./test/other")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, known.fault(c))
		})
	}
}
