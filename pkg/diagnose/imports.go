// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

const (
	// primePrefix begins the names of the claims that CDI's importers fill
	// (pkg/controller/populators/util.go).
	primePrefix = "prime-"
	// importerPrefix begins the names of CDI's importer pods.
	importerPrefix = "importer-"
	// killed is the reason of a container that was killed for its memory limit.
	killed = "OOMKilled"
	// importFailed is the reason of CDI's event for an importer that has failed, on the claim that the
	// importer fills (pkg/controller/import-controller.go).
	importFailed = "ErrImportFailed"
	// annotationDirectIO is CDI's annotation on that claim after an importer was killed for its memory
	// limit. It stays, whatever its value, while the pods and their states are replaced.
	annotationDirectIO = "cdi.kubevirt.io/storage.import.requiresDirectIo"
)

// ImporterOf returns the name of the importer pod that fills a claim.
func ImporterOf(claim string) string { return importerPrefix + claim }

// IsImporterWaiting reports whether the importer pod of a DataVolume does not start, for a reason that
// only the pod's events tell.
func IsImporterWaiting(dv *cdiv1beta1.DataVolume) bool {
	return SourceOf(dv) == "" && slices.ContainsFunc(dv.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool {
		return c.Type == cdiv1beta1.DataVolumeRunning && slices.Contains(preparing, c.Reason)
	})
}

// HasFailedImport reports whether an event is about the failure of an importer.
func HasFailedImport(events []corev1.Event) bool {
	for i := range events {
		if events[i].Reason == importFailed {
			return true
		}
	}

	return false
}

// ofKilledImports returns the signs of importers that were killed, and have failed since. CDI deletes the
// pod of a killed importer and creates another one, so that no condition lasts. A killed importer leaves
// a part of the image, about which the next one may report that the volume is too small. Any other message
// names the failure.
func (e *Evidence) ofKilledImports(events []sign) []sign {
	hit := map[string]bool{}

	for i := range e.Claims {
		if _, found := e.Claims[i].Annotations[annotationDirectIO]; found {
			hit[e.Claims[i].Name] = true
		}
	}

	var signs []sign

	for _, s := range events {
		if s.reason != importFailed || s.from == retried || !hit[s.object.Name] {
			continue
		}

		words := "an importer was killed: out of memory"

		switch s.words = strings.ToLower(s.message); {
		case s.says(tooSmall):
			words += "; the last one reports: " + s.message
		case s.message != "":
			continue
		}

		s.from = importKill
		s.message = words
		s.subject = "DataVolume " + e.filledFor(s.object.Name)
		signs = append(signs, s)
	}

	return signs
}

// filledFor returns the name of the DataVolume for which CDI fills a claim.
func (e *Evidence) filledFor(claim string) string {
	for i := range e.Claims {
		if target := &e.Claims[i]; claim == primePrefix+string(target.UID) {
			return target.Name
		}
	}

	return claim // It is filled directly, and has the name of its DataVolume.
}

// isImporting reports whether the importer of a DataVolume runs.
func (e *Evidence) isImporting(name string) bool {
	return slices.ContainsFunc(slices.Concat(e.DataVolumes, e.Images), func(dv cdiv1beta1.DataVolume) bool {
		return dv.Name == name && slices.ContainsFunc(dv.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool {
			return c.Type == cdiv1beta1.DataVolumeRunning && c.Status == corev1.ConditionTrue
		})
	})
}
