package main

import "time"

// supported are the architectures of a released image.
var supported = []string{"amd64", "arm64"}

// createdFormat is the format of the label org.opencontainers.image.created
// (https://specs.opencontainers.org/image-spec/annotations/).
const createdFormat = time.RFC3339

// release describes the source of an image.
type release struct {
	definition

	// architectures are the platforms of the image, all of Linux.
	architectures []string
	version       string
	// revision is the full commit hash; it ends in -dirty if files were changed after the commit.
	revision string
	// created is the time of the commit, so that later builds produce the same image.
	created time.Time
}
