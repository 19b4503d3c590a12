package validation

import (
	"bytes"
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
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// maxParsed bounds the text that is parsed: the tree of a hostile text takes a hundred times its
// size. A larger text is accepted.
const maxParsed = 256 << 10

// UserDataErrors returns the errors of user data that no guest can read, so that its machine would
// never join. They never quote the user data. The field is the key of the Secret.
func UserDataErrors(userData []byte) field.ErrorList {
	path, format := userDataPath(), formatOf(userData)

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
// cloudinit/handlers/__init__.py), in lower case.
var beginnings = []struct {
	text   string
	format format
}{
	{"#cloud-config-archive", formatArchive},
	{"#cloud-config", formatCloudConfig},
	{"content-type:", formatMIME},
	{"mime-version:", formatMIME},
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

	const longest = 64

	text := bytes.TrimLeft(userData, " \t\r\n")
	text = bytes.ToLower(text[:min(len(text), longest)])

	for _, beginning := range beginnings {
		if bytes.HasPrefix(text, []byte(beginning.text)) {
			return beginning.format
		}
	}

	return formatUnknown
}

func decodeBase64(text []byte) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
}

// unlessYAML returns an error text, unless a text is YAML of this kind, or has only comments.
func unlessYAML(text []byte, kind yaml.Kind, what string) string {
	root, wrong := readYAML(text)
	if wrong != "" || root == nil || root.Kind == kind {
		return wrong
	}

	return "must be " + what
}

// yamlLine is the position in an error of the YAML parser, whose text may quote the document.
var yamlLine = regexp.MustCompile(`^yaml: (line \d+):`)

// readYAML returns the root of a YAML document; nil for an empty one, and one that is too large.
// wrong is the error text. The tree has the aliases of the document, not their values.
func readYAML(text []byte) (root *yaml.Node, wrong string) {
	if len(text) > maxParsed {
		return nil, ""
	}

	var document yaml.Node

	if err := yaml.Unmarshal(text, &document); err != nil {
		at := ""
		if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
			at = " (error near " + line[1] + ")"
		}

		return nil, fmt.Sprintf("must be YAML%s; indent with spaces, and quote values with special characters", at)
	}

	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil, ""
	}

	return document.Content[0], ""
}

// member returns the member of a YAML object, or nil.
func member(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}

	return nil
}

func unlessMIME(text []byte) string {
	message, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(text, " \t\r\n")))
	if err != nil {
		return "must be a MIME message, as it begins; separate its headers from the body by an empty line"
	}

	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return "" // cloud-init accepts a single part, and is lenient.
	}

	boundary := parameters["boundary"]
	if boundary == "" || !bytes.Contains(text, []byte("--"+boundary)) {
		return "must be a multipart message with a boundary; set boundary in Content-Type, and begin each part with it"
	}

	return ""
}

// networkData refuses network data that no guest can read.
func networkData(c v1alpha1.CloudInit, path *field.Path) field.ErrorList {
	if c.NetworkData == "" || len(c.NetworkData) > maxParsed {
		return nil
	}

	if c.Type == v1alpha1.CloudInitConfigDrive {
		var object map[string]json.RawMessage

		err := json.Unmarshal([]byte(c.NetworkData), &object)

		return refuse(path, err != nil || object == nil, field.OmitValueType{},
			"must be a JSON object in the format of OpenStack's network_data.json, the only one of ConfigDrive")
	}

	root, wrong := readYAML([]byte(c.NetworkData))
	if wrong == "" && (root == nil || root.Kind != yaml.MappingNode) {
		wrong = "must be an object in cloud-init's format of network configuration, version 1 or 2"
	}

	if wrong != "" {
		return refuse(path, true, field.OmitValueType{}, wrong)
	}

	version := member(networkConfig(root), "version")

	return refuse(path, version != nil && !slices.Contains([]string{"1", "2"}, version.Value), field.OmitValueType{},
		"must have version 1 or 2")
}

// networkConfig returns the configuration in network data for NoCloud, which may be inside of a member
// called network.
func networkConfig(root *yaml.Node) *yaml.Node {
	if inner := member(root, "network"); inner != nil && inner.Kind == yaml.MappingNode {
		return inner
	}

	return root
}

// emptyNetworkDataWarnings returns a warning about network data that configure no interface. They have
// no errors.
func emptyNetworkDataWarnings(c v1alpha1.CloudInit, path *field.Path) []Warning {
	if c.NetworkData == "" || len(c.NetworkData) > maxParsed {
		return nil
	}

	root, _ := readYAML([]byte(c.NetworkData)) // JSON is YAML.
	if root == nil || root.Kind != yaml.MappingNode {
		return nil
	}

	if c.Type == v1alpha1.CloudInitConfigDrive {
		return warnIf(path, !hasAny(root, "links") || !hasAny(root, "networks"),
			"has no links or no networks, so that the guest configures no interface; describe both, as in OpenStack's network_data.json")
	}

	config := networkConfig(root)

	switch version := ptr.Deref(member(config, "version"), yaml.Node{}).Value; version {
	case "1":
		return warnIf(path, !hasAny(config, "config"), "has version 1, but no config, so that the guest configures no interface; list its interfaces there")
	case "2":
		return warnIf(path, !hasAny(config, "ethernets", "bonds", "bridges", "vlans"),
			"has version 2, but no ethernets, so that the guest configures no interface; describe its interfaces there")
	default:
		return warnIf(path, true, "has no version, so that cloud-init ignores it; add version: 1 or version: 2")
	}
}

func hasAny(object *yaml.Node, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		m := member(object, name)

		return m != nil && m.Tag != "!!null"
	})
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
		return warnIf(userDataPath(), true, "is in no format that cloud-init or Ignition recognizes, so that they ignore it; "+
			"begin it with #cloud-config, with #! for a script, or with MIME headers, or write an Ignition config")
	case formatGzip:
		return warnIf(userDataPath(), true, "is compressed, so that machine-controller-manager cannot replace <<BOOTSTRAP_TOKEN>> in it; "+
			"do not compress it, unless kubelet gets its credentials in another way")
	default:
		return warnIf(userDataPath(), !token, "does not contain <<BOOTSTRAP_TOKEN>>, which machine-controller-manager replaces with a token; "+
			"add it, unless kubelet gets its credentials in another way")
	}
}
