// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import "slices"

// members are members of an object.
type members struct {
	// every is set if each member is one.
	every bool
	// names are the names of the others, in lower case.
	names []string
}

// quantities are the members that a decoder parses as quantities, by the name of the object around
// them, in lower case. TestEstimate_FindsEveryQuantity proves that the types have no others.
var quantities = map[string]members{
	"allocatable":             {every: true},
	"allocatedresources":      {every: true},
	"capacity":                {every: true},
	"configuration":           {names: []string{"cpurequest"}},
	"default":                 {every: true},
	"defaultrequest":          {every: true},
	"diskverification":        {names: []string{"memorylimit"}},
	"emptydir":                {names: []string{"sizelimit"}},
	"emptydisk":               {names: []string{"capacity"}},
	"hard":                    {every: true},
	"hostdisk":                {names: []string{"capacity"}},
	"limits":                  {every: true},
	"liveupdateconfiguration": {names: []string{"maxguest"}},
	"max":                     {every: true},
	"maxlimitrequestratio":    {every: true},
	"memory":                  {names: []string{"guest", "guestatboot", "guestcurrent", "guestrequested", "maxguest", "memoryoverhead"}},
	"migrationconfiguration":  {names: []string{"bandwidthpermigration"}},
	"migrations":              {names: []string{"bandwidthpermigration"}},
	"migrationstate":          {names: []string{"targetmemoryoverhead"}},
	"min":                     {every: true},
	"overhead":                {every: true},
	"podfixed":                {every: true},
	"requests":                {every: true},
	"reservedoverhead":        {names: []string{"addedoverhead"}},
	"resourcefieldref":        {names: []string{"divisor"}},
	"used":                    {every: true},
}

// quantities returns the members that may hold a quantity in an object or array with this name.
func (n memberName) quantities() members {
	key, unusual := n.key()
	if unusual {
		return members{every: true}
	}

	return quantities[key]
}

// in reports whether the name may be one of the members.
func (n memberName) in(m members) bool {
	if len(m.names) == 0 {
		return false
	}

	key, unusual := n.key()

	return unusual || slices.Contains(m.names, key)
}
