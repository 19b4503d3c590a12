package transport

import (
	"slices"
	"unicode/utf8"
)

// members are members of an object.
type members struct {
	// every is set if each member is one.
	every bool
	// names are the names of the others, in lower case.
	names []string
}

// quantities are the members that a decoder parses as quantities, by the name of the object around
// them, in lower case. TestScanner_FindsEveryQuantity proves that the types have no others.
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

// memberName is the name of a member. Decoders of KubeVirt's types ignore case (encoding/json), so
// it is kept in lower case.
type memberName struct {
	text   [len("liveupdateconfiguration")]byte
	length int
	// unusual is set for a name with an escape sequence or a character beyond ASCII, which may be
	// equal to any other name for a decoder.
	unusual bool
}

// add appends a part of the name.
func (n *memberName) add(part []byte) {
	for _, b := range part {
		n.unusual = n.unusual || b >= utf8.RuneSelf

		if n.length < len(n.text) {
			n.text[n.length] = lower(b)
		}

		n.length++
	}
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b - 'A' + 'a'
	}

	return b
}

// quantities returns the members that may hold a quantity in an object or array with this name.
func (n *memberName) quantities() members {
	switch {
	case n.unusual:
		return members{every: true}
	case n.length > len(n.text):
		return members{}
	default:
		return quantities[string(n.text[:n.length])]
	}
}

// in reports whether the name may be one of the members.
func (n *memberName) in(m members) bool {
	return len(m.names) > 0 && (n.unusual || n.length <= len(n.text) && slices.Contains(m.names, string(n.text[:n.length])))
}
