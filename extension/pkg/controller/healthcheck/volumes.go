// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// volumes are the DataVolumes of a shoot's machines and its golden images that do not have their
// content.
type volumes []volume

// volume is a DataVolume.
type volume struct {
	name string
	// source is the name of the claim from which it is cloned; empty if it is not cloned.
	source string
	// failure is the text of its error; empty if it has none.
	failure string
}

// isIncomplete reports whether a DataVolume with the tag of the shoot is one of volumes. Those without
// the tag of a machine's role are not disks of machines: CSI volumes, for example.
func isIncomplete(dv *cdiv1beta1.DataVolume, technicalID string) bool {
	return (dv.Labels[providerspec.TagRole] != "" || goldenimage.Is(dv, technicalID)) &&
		dv.Status.Phase != cdiv1beta1.Succeeded && dv.DeletionTimestamp == nil
}

func newVolume(dv *cdiv1beta1.DataVolume) volume {
	v := volume{name: dv.Name, source: sourceOf(dv)}

	if token, message := diagnose(dv); token != "" {
		v.failure = excerpt(token + ": " + dv.Name + ": " + message)
	}

	return v
}

// failing returns the texts of the failures. A clone of a DataVolume that is not complete is omitted:
// only its source can be repaired.
func (all volumes) failing() []string {
	incomplete := sets.New[string]()
	for _, v := range all {
		incomplete.Insert(v.name)
	}

	var texts []string

	for _, v := range all {
		if v.failure != "" && !incomplete.Has(v.source) {
			texts = append(texts, v.failure)
		}
	}

	return texts
}

// tokens maps CDI's reasons for a failure (pkg/controller/datavolume of CDI), some of which are
// kubelet's, to the driver's error tokens (api/reasons), which determine Gardener's error code.
// Other reasons are not failures: every DataVolume waits for something at first.
var tokens = map[string]string{
	"Error":                      "ImportFailed",
	"ErrStartingPod":             "ImportFailed",
	"CreateContainerError":       "ImportFailed",
	"RunContainerError":          "ImportFailed",
	"StartError":                 "ImportFailed",
	"ContainerStatusUnknown":     "ImportFailed",
	"Evicted":                    "ImportFailed",
	"CreateContainerConfigError": "SecretNotFound",
	"OOMKilled":                  "ImportOutOfMemory",
	"ImagePullFailed":            "ImagePullFailed",
	"ChecksumError":              "ImageCorrupt",
	"ClaimLost":                  "DataVolumeFailed",
	"ErrExceededQuota":           "QuotaExceeded",
	"ErrClaimNotValid":           "ClaimInvalid",
	"CloneWithoutSource":         "CloneSourceNotFound",
	"CloneValidationFailed":      "CloneRefused",
	"ErrUnableToClone":           "CloneRefused",
	"ErrIncompatiblePVC":         "CloneRefused",
}

const (
	// sourceMissing is CDI's message for a clone whose source does not exist yet
	// (pkg/controller/clone/planner.go).
	sourceMissing = "source/target size info missing"
	// maxRestarts is the number of restarts after which an importer fails, even while it runs again.
	maxRestarts = 3
)

// diagnose returns the token and the message of a DataVolume's failure; an empty token if it has none.
func diagnose(dv *cdiv1beta1.DataVolume) (token, message string) {
	for _, c := range dv.Status.Conditions {
		token := tokenOf(c.Reason)
		if token != "" && c.Status != corev1.ConditionTrue && c.Message != sourceMissing {
			return token, cmp.Or(c.Message, c.Reason)
		}
	}

	switch {
	case dv.Status.Phase == cdiv1beta1.Failed:
		return "DataVolumeFailed", "CDI does not retry the import or clone"
	case dv.Status.RestartCount >= maxRestarts:
		return "ImportFailed", fmt.Sprintf("its importer restarted %d times", dv.Status.RestartCount)
	default:
		return "", ""
	}
}

// tokenOf returns the token of a reason; empty if it is no failure. CDI joins the reasons of a clone's
// receiver and sender.
func tokenOf(reason string) string {
	for part := range strings.SplitSeq(reason, " and ") {
		if token := tokens[part]; token != "" {
			return token
		}
	}

	return ""
}

// sourceOf returns the name of the claim in the same namespace from which a DataVolume is cloned.
func sourceOf(dv *cdiv1beta1.DataVolume) string {
	if dv.Spec.Source == nil || dv.Spec.Source.PVC == nil || !slices.Contains([]string{"", dv.Namespace}, dv.Spec.Source.PVC.Namespace) {
		return ""
	}

	return dv.Spec.Source.PVC.Name
}

// maxExcerpt bounds a text of the provider cluster in a condition, in bytes.
const maxExcerpt = 300

// url matches a URL: up to the end of the quotation, or to the next space.
var url = regexp.MustCompile(`(?is)"[a-z][a-z0-9+.-]*://(?:[^"\\]|\\.)*"?|[a-z][a-z0-9+.-]*://\S+`)

// excerpt returns a text of the provider cluster without URLs, which may contain credentials, and with
// a limited length.
func excerpt(text string) string {
	text = url.ReplaceAllString(text, "<URL>")
	if len(text) <= maxExcerpt {
		return text
	}

	end := maxExcerpt
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}

	return text[:end] + "..."
}
