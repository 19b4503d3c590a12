// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import "time"

// The limits in this file bound the resources of the driver that several responses of a server can
// use together: memory, objects and time. Package transport bounds each response. The fractions were
// measured on objects of real control planes, including their managedFields.

// Bytes.
const (
	// maxRefusal bounds the bytes that are read of a refusal to determine whether a quota caused
	// it.
	maxRefusal = 16 << 10
	// maxServer bounds the identity of a provider cluster: it appears in logs, metrics and reports.
	maxServer = 1 << 10
)

// Caches of watches. Package pages bounds lists.
const (
	// maxFollowed bounds the objects in an informer's cache, and maxFollowedMemory their memory, in bytes.
	// Evacuation keeps 2 KiB of an instance.
	maxFollowed, maxFollowedMemory = 10_000, 24 << 20
	// maxFollowedCost bounds the memory that all pages of their list take, one after the other: that of
	// maxFollowed instances with a hundred interfaces.
	maxFollowedCost = 4 << 30
	// followedPerPage is the page size for whole objects. An instance may list a hundred interfaces
	// of its guest, one for every pod of the shoot, with their addresses.
	followedPerPage = 25
)

// Time.
const (
	// readTimeout bounds a read of one object, which no webhook delays. If requests hang and the
	// provider cluster then recovers, the next attempt follows after at most this time plus
	// machine-controller-manager's ShortRetry (5 s).
	readTimeout = 8 * time.Second
	// listTimeout bounds the time for reading an informer's list.
	listTimeout = time.Minute
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
