// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command importer imports a disk image as CDI's importer pod does, with CDI's own code for sources, image
// formats, checksums and sizes.
//
//	importer --data=FOLDER --scratch=FOLDER --termination-message=FILE
//
// The lab's hypervisor (test/lab/guest) runs it in place of the containers of importer pods, with the
// environment that cdi-controller gave them. CDI's own main has fixed folders, and serves metrics on all
// addresses.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/utils/ptr"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"kubevirt.io/containerized-data-importer/pkg/common"
	cc "kubevirt.io/containerized-data-importer/pkg/controller/common"
	"kubevirt.io/containerized-data-importer/pkg/importer"
)

type folders struct {
	data, scratch, message string
}

func main() {
	var f folders
	flag.StringVar(&f.data, "data", "", "folder of the volume")
	flag.StringVar(&f.scratch, "scratch", "", "folder of the scratch volume; empty if there is none")
	flag.StringVar(&f.message, "termination-message", "", "file for the termination message")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "importer:", err)
		os.Exit(1)
	}
}

// run imports, and writes the termination message by which cdi-controller judges the import. An error ends
// the container, which is then restarted.
func run(f folders) error {
	message, err := process(f)
	if errors.Is(err, importer.ErrChecksumMismatch) {
		// A success, so that the container is not restarted.
		removed := os.RemoveAll(filepath.Join(f.data, common.DiskImageName))
		return errors.Join(removed, f.write(&common.TerminationMessage{Message: ptr.To("Unable to process data: " + err.Error())}))
	}
	if err != nil {
		return errors.Join(err, os.WriteFile(f.message, []byte("Unable to process data: "+err.Error()), 0o600))
	}
	return f.write(message)
}

func (f folders) write(message *common.TerminationMessage) error {
	text, err := message.String()
	if err != nil {
		return fmt.Errorf("encode termination message: %w", err)
	}
	return os.WriteFile(f.message, []byte(text), 0o600)
}

func process(f folders) (*common.TerminationMessage, error) {
	source, err := open()
	if err != nil {
		return nil, err
	}
	defer source.Close() //nolint:errcheck // it was only read
	overhead, err := strconv.ParseFloat(os.Getenv(common.FilesystemOverheadVar), 64)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", common.FilesystemOverheadVar, err)
	}
	processor := importer.NewDataProcessor(source, filepath.Join(f.data, common.DiskImageName), f.data, f.scratch,
		os.Getenv(common.ImporterImageSize), overhead, isSet(common.Preallocation), os.Getenv(common.CacheMode))
	err = processor.ProcessData()
	needsScratch := errors.Is(err, importer.ErrRequiresScratchSpace)
	if err != nil && !needsScratch {
		return nil, err
	}
	message := source.GetTerminationMessage()
	if message == nil {
		message = &common.TerminationMessage{}
	}
	message.ScratchSpaceRequired = &needsScratch
	message.PreallocationApplied = ptr.To(processor.PreallocationApplied())
	message.Message = ptr.To("Import Complete")
	return message, nil
}

// open returns the source that the environment describes.
func open() (importer.DataSourceInterface, error) {
	endpoint := os.Getenv(common.ImporterEndpoint)
	user := os.Getenv(common.ImporterAccessKeyID)
	password := os.Getenv(common.ImporterSecretKey)
	certificates := os.Getenv(common.ImporterCertDirVar)
	switch kind := os.Getenv(common.ImporterSource); kind {
	case cc.SourceHTTP:
		return importer.NewHTTPDataSource(endpoint, user, password, certificates,
			cdiv1.DataVolumeContentType(os.Getenv(common.ImporterContentType)), os.Getenv(common.ImporterChecksum))
	case cc.SourceRegistry:
		return importer.NewRegistryDataSource(endpoint, user, password, os.Getenv(common.ImporterRegistryImageArchitecture),
			certificates, isSet(common.InsecureTLSVar)), nil
	default:
		return nil, fmt.Errorf("source %q: this importer supports %s and %s", kind, cc.SourceHTTP, cc.SourceRegistry)
	}
}

func isSet(variable string) bool {
	value, err := strconv.ParseBool(os.Getenv(variable))
	return err == nil && value
}
