// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"net/netip"
	"sync"
)

// AddressPool assigns the IPs of a /16.
type AddressPool struct {
	mu     sync.Mutex
	prefix [2]byte
	last   uint16
}

// hostsPerOctet excludes .0 and .255.
const hostsPerOctet = 254

// NewAddressPool returns a pool of the addresses a.b.0.1 and up.
func NewAddressPool(a, b byte) *AddressPool {
	return &AddressPool{prefix: [2]byte{a, b}}
}

// Next returns an unassigned address, unless all have been assigned.
func (p *AddressPool) Next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ip := netip.AddrFrom4([4]byte{
		p.prefix[0], p.prefix[1], byte(p.last / hostsPerOctet), byte(p.last%hostsPerOctet + 1),
	})
	p.last++
	return ip.String()
}

// Reserve advances the pool past an address assigned by an earlier run.
func (p *AddressPool) Reserve(address string) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return
	}
	octets := ip.As4()
	if octets[0] != p.prefix[0] || octets[1] != p.prefix[1] {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, uint16(octets[2])*hostsPerOctet+uint16(octets[3]))
}
