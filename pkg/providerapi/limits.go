package providerapi

import "time"

// The limits in this file bound the resources of the driver that a server can use: bytes, memory,
// objects and time. The fractions were measured on objects of real control planes, including their
// managedFields.

// Bytes of one response, after decompression.
const (
	// maxResponse bounds the body of a response. The largest object that etcd accepts has half this
	// size.
	maxResponse = 3 << 20
	// maxPage bounds a page of a list that is read page by page. The metadata of 500
	// VirtualMachines take a fifth of it.
	maxPage = 8 << 20
	// maxEvent bounds one event of a watch.
	maxEvent = maxResponse
	// maxWatch bounds all events of a watch together: if a server sends events as fast as it can,
	// the driver pauses before the next watch. Two thousand instances that change every minute
	// reach the bound in a minute and a half.
	maxWatch = 64 << 20
	// maxHeader bounds the headers of a response.
	maxHeader = 256 << 10
	// maxStatus bounds the body of an error response.
	maxStatus = 256 << 10
	// maxMessage bounds each string of a metav1.Status, and maxCauses the number of its causes.
	// KubeVirt adds one cause per invalid field.
	maxMessage, maxCauses = 8 << 10, 100
	// maxRefusal bounds the bytes that are read of a refusal to determine whether a quota caused
	// it.
	maxRefusal = 16 << 10
	// maxServer bounds the identity of a provider cluster: it appears in logs, metrics and reports.
	maxServer = 1 << 10
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
	// slot; see readSlot. A VirtualMachine takes a fifth of it, and the metadata of a hundred take
	// all of it.
	smallResponse = 1 << 20
	// maxLargeReads is the number of large responses that the process reads and decodes at a time,
	// across all provider clusters.
	maxLargeReads = 4
	// maxLargeReadsPerCluster is the number of these per cluster: a server that sends only large
	// responses, and slowly, must not block reads from the others.
	maxLargeReadsPerCluster = 1
	// largeReadTimeout bounds the time for reading the rest of a large response or event while
	// others wait for a slot.
	largeReadTimeout = 10 * time.Second
)

// Lists, and the caches of watches.
const (
	// MaxObjects bounds the objects in a list; no shoot has as many machines. A partial list is never
	// used.
	MaxObjects = 20_000
	// MaxPages bounds the pages of a list, which need not be full. A list with a smaller page size
	// may have as many pages as MaxObjects fill.
	MaxPages = 200
	// perPage is the default number of objects per page.
	perPage = 500
	// maxList bounds the bytes of all pages of a list, because the kept names and fields may be
	// long. The metadata of 10,000 VirtualMachines reach this size.
	maxList = 32 << 20
	// maxFollowed bounds the objects in an informer's cache, and maxFollowedBytes the bytes of
	// their JSON. Evacuation keeps 2 KiB of an instance.
	maxFollowed, maxFollowedBytes = 10_000, 32 << 20
	// followedPerPage is the page size for whole objects. An instance may list a hundred interfaces
	// of its guest, one for every pod of the shoot, with their addresses.
	followedPerPage = 25
)

// Time.
const (
	// requestTimeout bounds one request. An admission webhook may take 10 s, and there are several.
	requestTimeout = 30 * time.Second
	// readTimeout bounds a read of one object, which no webhook delays. If requests hang and the
	// provider cluster then recovers, the next attempt follows after at most this time plus
	// machine-controller-manager's ShortRetry (5 s).
	readTimeout = 8 * time.Second
	// listTimeout bounds the time for reading an informer's list.
	listTimeout = time.Minute
	// watchBeginTimeout bounds the time until a watch begins. An API server sends the headers of
	// its response at once.
	watchBeginTimeout = 15 * time.Second
	// maxWatchDuration bounds a watch that its server does not end. API servers end a watch that
	// requests a timeout after ten minutes at most.
	maxWatchDuration = 11 * time.Minute
	// rewatchInterval is the interval of attempts to watch an object whose version has expired.
	rewatchInterval = time.Second
)

// Kubeconfigs.
const (
	// maxClients is the maximum number of kubeconfigs whose clients are cached. A sidecar serves
	// one shoot, usually with one kubeconfig, whose old and new versions coexist during a rotation;
	// a driver over gRPC serves as many shoots as its clients have. The clients of one kubeconfig
	// take less than 100 KiB, plus 50 KiB per open connection.
	maxClients = 512
	// keepUnused is how long unused clients are kept. machine-controller-manager checks for
	// orphans, with every kubeconfig in use, at least every half hour.
	keepUnused = time.Hour
	// maxRefused is the maximum number of unusable kubeconfigs that are remembered, and keepRefused
	// is how long each is remembered: parsing one takes up to a second, and
	// machine-controller-manager retries every few seconds. Their hashes and errors are kept, not
	// their contents.
	maxRefused, keepRefused = 1024, 10 * time.Minute
)
