package validation

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// twoSchemes matches a URL whose host, as far as the parser is concerned, is another URL's scheme.
var twoSchemes = regexp.MustCompile(`^([a-z0-9-]+)://[A-Za-z][A-Za-z0-9+.-]*://`)

// sourceURL never repeats the URL: it may hold a password.
func sourceURL(text string, path *field.Path, schemes ...string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "name the image, with "+strings.Join(schemes, ":// or ")+"://")}
	}

	if scheme := twoSchemes.FindStringSubmatch(text); scheme != nil && slices.Contains(schemes, scheme[1]) {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must have one scheme; remove the second, so that the host follows "+scheme[1]+"://")}
	}

	parsed, err := url.ParseRequestURI(text)
	if err != nil || !slices.Contains(schemes, parsed.Scheme) || parsed.Host+parsed.Opaque+parsed.Path == "" {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a URL with "+strings.Join(schemes, ":// or ")+"://")}
	}

	if parsed.Host == "" && parsed.Scheme != cdiv1beta1.RegistrySchemeOci {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must name a host after "+parsed.Scheme+"://")}
	}

	return nil
}
