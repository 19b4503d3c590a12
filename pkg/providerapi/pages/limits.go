// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages

// The limits in this file bound the resources that one list can use. Package transport bounds each
// page. The fractions were measured on objects of real control planes, including their
// managedFields.
const (
	// MaxObjects bounds the objects in a list; no shoot has as many machines.
	MaxObjects = 20_000
	// MaxPages bounds the pages of a list, which need not be full. A list with a smaller page size
	// may have as many pages as MaxObjects fill.
	MaxPages = 200

	// perPage is the default number of objects per page.
	perPage = 500
	// maxCost is the default bound on the memory that all pages of a list take, one after the other. The
	// metadata of 10,000 VirtualMachines reach this size.
	maxCost = 512 << 20
	// maxKept is the default bound on the memory of what is kept of a list. The names and UIDs of 20,000
	// machines take three quarters of it.
	maxKept = 4 << 20
	// maxToken bounds the token of the next page, which is sent in a URL. The token of an API server
	// contains the key of an object, and has 150 bytes.
	maxToken = 4 << 10
)
