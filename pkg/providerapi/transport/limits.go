// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import "time"

// The limits in this file bound the resources of a client that one response can use: bytes, memory
// and time. The fractions were measured on objects of real control planes, including their
// managedFields.

// Memory of one response, in bytes. It is estimated before the response is decoded.
const (
	// maxKept bounds the memory of any response that is not a page of a list, and of an event of a watch: a
	// call keeps up to three at a time, and fifty calls run at a time. TestMaxKept_LargeMachine has the largest
	// objects that are expected of a provider cluster: they take three quarters of it.
	maxKept = 1 << 20
	// maxPage bounds the memory of a page of a list, which is dropped before the next one is read. The
	// metadata of 500 VirtualMachines take two thirds of it.
	maxPage = 32 << 20

	// costOfByte is the memory of a byte of text: the response itself, its copy for the decoder, and that in
	// a string.
	costOfByte = 3
	// costOfItem is the memory of an item of a list, excluding its texts, with the spare room of the array:
	// a VirtualMachineInstance has 1,528 bytes. Items have the depth itemDepth. costOfObject is the memory of
	// an object in any other array: the largest, an ephemeral container, has 424 bytes. costOfElement is that
	// of any other element, and costOfMember that of a member of an object, which may be an entry of a map.
	costOfItem, itemDepth, costOfObject, costOfElement, costOfMember = 2 << 10, 2, 640, 64, 128
	// maxDepth bounds the nesting of objects and arrays. A list of VirtualMachines with
	// managedFields has 17 levels.
	maxDepth = 64
)

// Bytes.
const (
	// maxWatch bounds all events of a watch together. A client resumes a watch that ends.
	maxWatch = 16 << 20
	// watchRate is the average number of bytes per second that a client reads of consecutive watches. Two
	// thousand instances that change every minute take two thirds of it.
	watchRate = 1 << 20
	// maxHeader bounds the headers of a response. Those of an API server behind a gateway have 2 KiB.
	maxHeader = 32 << 10
	// maxURL bounds the path and the query of a request, which contain names and tokens from earlier
	// responses. Two names of 253 bytes, and selectors and the token of a page with such names take a third
	// of it.
	maxURL = 8 << 10
	// maxDropped bounds what is read of the response to a deletion. The connection can be used again unless
	// the response is larger.
	maxDropped = 1 << 20
	// MaxText bounds a response that is text: the rest is not read. Its copies take as much memory as any
	// other response.
	MaxText = 256 << 10
	// maxMessage bounds each string of a metav1.Status, and maxCauses the number of its causes.
	// KubeVirt adds one cause per invalid field.
	maxMessage, maxCauses = 8 << 10, 100
)

// Large pages, which wait for a slot.
const (
	// smallPage is the memory that a page may take before it has to wait for a slot; see ReadSlot. The
	// metadata of 25 VirtualMachines take all of it.
	smallPage = 1 << 20
	// maxLargeReads is the number of large pages that the process reads and decodes at a time,
	// across all provider clusters.
	maxLargeReads = 4
	// maxLargeReadsPerCluster is the number of these per cluster: a server that sends only large
	// pages, and slowly, must not block reads from the others.
	maxLargeReadsPerCluster = 1
	// maxHosts is the maximum number of hosts whose semaphores are kept.
	maxHosts = 512
	// largeReadTimeout bounds the time for reading the rest of a large page while others wait for a slot.
	largeReadTimeout = 10 * time.Second
)

// maxIdleConnections is the number of idle connections to a server that are kept: two for each worker of machine-controller-manager,
// since a call sends two requests at a time as a rule. Each further one would cost two round trips, and the handshake of TLS.
const maxIdleConnections = 100

// Time.
const (
	// RequestTimeout bounds one request. An admission webhook may take 10 s, and there are several.
	RequestTimeout = 30 * time.Second
	// watchBeginTimeout bounds the time until a watch begins. An API server sends the headers of
	// its response at once.
	watchBeginTimeout = 15 * time.Second
	// maxWatchDuration bounds a watch that its server does not end. API servers end a watch that
	// requests a timeout after ten minutes at most.
	maxWatchDuration = 11 * time.Minute
	// minWatchDuration is how long a watch takes, even if its server ends it.
	minWatchDuration = time.Second
)
