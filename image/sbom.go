// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// writeSBOM writes an SPDX document with the image, its programs and the Go modules in them
// (https://spdx.github.io/spdx-spec/v2.3/); package URLs identify them for vulnerability scanners. It contains no time and no identifier of the build, so
// that equal images have equal documents.
func writeSBOM(path string, r release, programs []program, digest v1.Hash) (err error) {
	title := r.labels["org.opencontainers.image.title"]
	s := sbom{seen: map[common.ElementID]bool{}, document: &v2_3.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      title,
		DocumentNamespace: r.labels["org.opencontainers.image.source"] + "/spdx/" + digest.Hex,
		CreationInfo: &v2_3.CreationInfo{
			Created:  r.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "make image"}},
		},
	}}

	image := s.add("DOCUMENT", common.TypeRelationshipDescribe, title, r.version, "CONTAINER", "pkg:oci/"+title+"@sha256%3A"+digest.Hex)
	image.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest.Hex}}

	for _, p := range programs {
		sum := sha256.Sum256(p.data)
		added := s.add(image.PackageSPDXIdentifier, common.TypeRelationshipContains, p.name+"-linux-"+p.architecture, r.version, "APPLICATION",
			"pkg:golang/"+p.build.Main.Path+"@"+r.version+"#cmd/"+p.name)
		added.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}}

		for _, module := range append([]*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(p.build.GoVersion, "go")}}, p.build.Deps...) {
			module = cmp.Or(module.Replace, module)
			s.add(added.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, module.Path, module.Version, "LIBRARY",
				"pkg:golang/"+module.Path+"@"+module.Version)
		}
	}

	file, err := os.Create(path) //nolint:gosec // The path is given on the command line.
	if err != nil {
		return fmt.Errorf("create the SBOM: %w", err)
	}
	defer file.Close() //nolint:errcheck // A failed write returns its error.

	return json.Write(s.document, file, json.Indent(" "))
}

// sbom is an SPDX document and the identifiers of its packages.
type sbom struct {
	document *v2_3.Document
	seen     map[common.ElementID]bool
}

// notInID matches the characters that an SPDX identifier must not have.
var notInID = regexp.MustCompile(`[^a-zA-Z0-9.]+`)

// add adds a package, unless the document has it, and its relationship to its parent.
func (s *sbom) add(parent common.ElementID, relationship, name, version, purpose, purl string) *v2_3.Package {
	p := &v2_3.Package{
		PackageName:               name,
		PackageSPDXIdentifier:     common.ElementID(notInID.ReplaceAllString(purpose+"-"+name+"-"+version, "-")),
		PackageVersion:            version,
		PackageDownloadLocation:   "NOASSERTION",
		PrimaryPackagePurpose:     purpose,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: purl}},
	}

	s.document.Relationships = append(s.document.Relationships, &v2_3.Relationship{
		RefA:         common.MakeDocElementID("", string(parent)),
		RefB:         common.MakeDocElementID("", string(p.PackageSPDXIdentifier)),
		Relationship: relationship,
	})

	if !s.seen[p.PackageSPDXIdentifier] {
		s.document.Packages = append(s.document.Packages, p)
		s.seen[p.PackageSPDXIdentifier] = true
	}

	return p
}
