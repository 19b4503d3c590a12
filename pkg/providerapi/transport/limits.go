package transport

import "time"

// The limits in this file bound the resources of a client that one response can use: bytes, memory
// and time. The fractions were measured on objects of real control planes, including their
// managedFields.

// Bytes of one response, after decompression.
const (
	// maxResponse bounds the body of a response. The largest object that etcd accepts has half this
	// size.
	maxResponse = 3 << 20
	// maxEvent bounds one event of a watch.
	maxEvent = maxResponse
	// maxWatch bounds all events of a watch together: if a server sends events as fast as it can,
	// the client pauses before the next watch. Two thousand instances that change every minute
	// reach the bound in a minute and a half.
	maxWatch = 64 << 20
	// maxHeader bounds the headers of a response.
	maxHeader = 256 << 10
	// maxStatus bounds the body of an error response.
	maxStatus = 256 << 10
	// maxMessage bounds each string of a metav1.Status, and maxCauses the number of its causes.
	// KubeVirt adds one cause per invalid field.
	maxMessage, maxCauses = 8 << 10, 100
)

// Content of one response, or of one event of a watch.
const (
	// maxDepth bounds the nesting of objects and arrays. A list of VirtualMachines with
	// managedFields has 17 levels.
	maxDepth = 64
	// maxElements bounds the elements of all arrays together. An empty object in an array takes
	// three bytes in a response and up to a thousand in memory. The metadata of 500 VirtualMachines
	// have a fifth of this number, and 50 nodes with their images have two thirds.
	maxElements = 20_000
	// maxMembers bounds the members of all objects together: a member of two bytes takes a hundred
	// bytes in a map. The metadata of 500 VirtualMachines have half of this number.
	maxMembers = 200_000
	// costOfElement and costOfMember are the maximum memory of an element and a member, in bytes,
	// excluding their strings.
	costOfElement, costOfMember = 1 << 10, 128
)

// Large responses, which wait for a slot.
const (
	// smallResponse is the memory, in bytes, that a response may take before it has to wait for a
	// slot; see ReadSlot. A VirtualMachine takes a fifth of it, and the metadata of a hundred take
	// all of it.
	smallResponse = 1 << 20
	// maxLargeReads is the number of large responses that the process reads and decodes at a time,
	// across all provider clusters.
	maxLargeReads = 4
	// maxLargeReadsPerCluster is the number of these per cluster: a server that sends only large
	// responses, and slowly, must not block reads from the others.
	maxLargeReadsPerCluster = 1
	// maxHosts is the maximum number of hosts whose semaphores are kept.
	maxHosts = 512
	// largeReadTimeout bounds the time for reading the rest of a large response or event while
	// others wait for a slot.
	largeReadTimeout = 10 * time.Second
)

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
)
