// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// maxParsed bounds the text that is parsed as YAML, for each new machine: the tree of a hostile text
// takes more than a hundred times its size. A larger text is accepted.
const maxParsed = 32 << 10

// ValidateUserData returns the errors of user data that certainly no guest can read, so that its machine
// would never join. They never quote the user data. The field is the key of the Secret.
func ValidateUserData(userData []byte) field.ErrorList {
	path := userDataPath()
	format := formatOf(userData)

	var wrong string

	switch format {
	case formatUnknown:
		if decoded, err := decodeBase64(userData); err == nil && formatOf(decoded) != formatUnknown {
			wrong = "must not be encoded in base64 twice; write the text itself to stringData, or its base64 to data"
		}
	case formatCloudConfig:
		wrong = unlessYAML(userData, yaml.MappingNode, "an object")
	case formatArchive:
		wrong = unlessYAML(userData, yaml.SequenceNode, "a list of parts")
	case formatMIME:
		wrong = unlessMIME(userData)
	default:
	}

	return refuse(path, wrong != "", field.OmitValueType{}, wrong)
}

func userDataPath() *field.Path { return field.NewPath(v1alpha1.SecretKeyUserData) }

// format is a format of user data.
type format string

const (
	formatUnknown     format = ""
	formatGzip        format = "gzip"
	formatIgnition    format = "Ignition"
	formatArchive     format = "#cloud-config-archive"
	formatCloudConfig format = "#cloud-config"
	formatMIME        format = "MIME"
	// formatOther is a format of cloud-init that is not parsed here, such as a script.
	formatOther format = "other"
)

// beginnings are the beginnings by which cloud-init recognizes user data (INCLUSION_TYPES_MAP in
// cloudinit/handlers/__init__.py), in lower case, longer ones first.
var beginnings = []struct {
	text   string
	format format
}{
	{"#cloud-config-archive", formatArchive},
	{"#cloud-config-jsonp", formatOther},
	{"#cloud-config", formatCloudConfig},
	{"#!", formatOther},
	{"#include", formatOther},
	{"#cloud-boothook", formatOther},
	{"#part-handler", formatOther},
	{"#upstart-job", formatOther},
	{"## template:", formatOther},
}

func formatOf(userData []byte) format {
	switch {
	case bytes.HasPrefix(userData, []byte{0x1f, 0x8b}):
		return formatGzip
	case isIgnition(userData):
		return formatIgnition
	}

	// cloud-init searches so many bytes for the header of a MIME message (convert_string in
	// cloudinit/user_data.py).
	const searched = 4096

	text := bytes.ToLower(userData[:min(len(userData), searched)])

	for _, beginning := range beginnings {
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte(beginning.text)) {
			return beginning.format
		}
	}

	if bytes.Contains(text, []byte("mime-version:")) {
		return formatMIME
	}

	return formatUnknown
}

func decodeBase64(text []byte) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
}

// unlessYAML returns an error text if a text is certainly not YAML of this kind. One with only comments
// has no error.
func unlessYAML(text []byte, kind yaml.Kind, what string) string {
	if len(text) > maxParsed {
		return ""
	}

	// It has the aliases of the text, not their values.
	var document yaml.Node

	if err := yaml.Unmarshal(text, &document); err != nil {
		return certainly(err)
	}

	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" || document.Content[0].Kind == kind {
		return ""
	}

	return "must be " + what
}

var (
	// yamlErrors match errors that every parser of YAML has. The guest's may know escapes that this one
	// does not, such as those of JSON, and other versions of YAML.
	yamlErrors = regexp.MustCompile(`cannot start any token|tab character|mapping values are not allowed|did not find expected|unknown anchor`)
	// yamlLine is the position in an error, whose text may quote the document.
	yamlLine = regexp.MustCompile(`^yaml: (line \d+):`)
)

// certainly returns the error text for an error of the YAML parser that the guest's parser has, too.
func certainly(err error) string {
	if !yamlErrors.MatchString(err.Error()) {
		return ""
	}

	at := ""
	if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
		at = " (error near " + line[1] + ")"
	}

	return fmt.Sprintf("must be YAML%s; indent with spaces, and quote values with special characters", at)
}

// unlessMIME returns an error text if no part of a multipart message can be found.
func unlessMIME(text []byte) string {
	message, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(text, " \t\r\n")))
	if err != nil {
		return "" // Python is more lenient.
	}

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return ""
	}

	boundary := strings.TrimSpace(parameters["boundary"])
	if boundary == "" || !bytes.Contains(text, []byte("--"+boundary)) {
		return "must be a multipart message with a boundary; set boundary in Content-Type, and begin each part with it"
	}

	return ""
}

// validateNetworkData refuses network data that certainly no guest can read.
func validateNetworkData(c v1alpha1.CloudInit, path *field.Path) field.ErrorList {
	text := []byte(c.NetworkData)
	wrong := ""

	if c.Type != v1alpha1.CloudInitConfigDrive {
		wrong = unlessYAML(text, yaml.MappingNode, "an object in cloud-init's format of network configuration, version 1 or 2")
	} else if len(text) > 0 && (!json.Valid(text) || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))) {
		wrong = "must be a JSON object in the format of OpenStack's network_data.json, the only one of ConfigDrive"
	}

	return refuse(path, wrong != "", field.OmitValueType{}, wrong)
}

// networkConfig is network data for cloud-init, which may be inside of a member called network, or
// OpenStack's.
type networkConfig struct {
	Version, Config, Ethernets, Bonds, Bridges, VLANs any
	Links, Networks                                   any
	Network                                           *networkConfig
}

// emptyNetworkDataWarnings returns a warning about network data that configure no interface.
func emptyNetworkDataWarnings(c v1alpha1.CloudInit, path *field.Path) []Warning {
	if len(c.NetworkData) > maxParsed {
		return nil
	}

	// JSON is YAML. A text with only comments is nil.
	var config *networkConfig
	if err := yaml.Unmarshal([]byte(c.NetworkData), &config); err != nil || config == nil {
		return nil
	}

	if c.Type == v1alpha1.CloudInitConfigDrive {
		return warnIf(path, config.Links == nil || config.Networks == nil,
			"has no links or no networks, so that the guest configures no interface; describe both, as in OpenStack's network_data.json")
	}

	config = cmp.Or(config.Network, config)

	switch {
	case config.Config == "disabled":
		return nil
	case config.Version == 1:
		return warnIf(path, config.Config == nil, "has version 1, but no config, so that the guest configures no interface; list its interfaces there")
	case config.Version == 2:
		return warnIf(path, !hasAny(config.Ethernets, config.Bonds, config.Bridges, config.VLANs),
			"has version 2, but no ethernets, so that the guest configures no interface; describe its interfaces there")
	default:
		return warnIf(path, true, "has neither version 1 nor 2, so that cloud-init configures no interface; set version: 1 or version: 2, without quotes")
	}
}

func hasAny(members ...any) bool {
	return slices.ContainsFunc(members, func(member any) bool { return member != nil })
}

// textWarnings returns the warnings about user data as its author wrote it, with the placeholders that
// machine-controller-manager replaces.
func textWarnings(userData []byte) []Warning {
	format := formatOf(userData)
	token := slices.ContainsFunc([]string{"<<BOOTSTRAP_TOKEN>>", "%3C%3CBOOTSTRAP_TOKEN%3E%3E"}, func(placeholder string) bool {
		return bytes.Contains(userData, []byte(placeholder))
	})

	switch format {
	case formatUnknown:
		return warnIf(userDataPath(), true, "is in no format that cloud-init or Ignition recognizes; unless the image has another program that reads it, "+
			"begin it with #cloud-config, with #! for a script, or with MIME headers, or write an Ignition config")
	case formatGzip:
		return warnIf(userDataPath(), true, "is compressed, so that machine-controller-manager cannot replace <<BOOTSTRAP_TOKEN>> in it; "+
			"do not compress it, unless kubelet gets its credentials in another way")
	default:
		return warnIf(userDataPath(), !token, "does not contain <<BOOTSTRAP_TOKEN>>, which machine-controller-manager replaces with a token; "+
			"add it, unless kubelet gets its credentials in another way")
	}
}
