// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// InternalServerError rejects a server that a component of a control plane must not call on behalf of
// the author of a kubeconfig, because the URL leads to the component's own host, cluster or cloud. Its
// text does not quote the kubeconfig.
type InternalServerError struct {
	// Kind describes the server, for example "a loopback address".
	Kind string
}

// Error implements error. The message has the same form as for other refused fields.
func (e *InternalServerError) Error() string {
	return refuse(true, "server", "it is "+e.Kind+"; use an address that leads to the provider cluster from other hosts and clusters too").Error()
}

// CheckInternalServer returns an InternalServerError for the URL of a server on the client's own host or
// link, or in its own cluster. Names are not resolved: see CheckInternalAddress.
func CheckInternalServer(server string) error {
	host := hostOf(server)
	if err := checkLocalHost(host); err != nil {
		return err
	}

	if kind := kindOfName(host); kind != "" {
		return &InternalServerError{Kind: kind}
	}

	return nil
}

// CheckLocalServer returns an InternalServerError for the URL of a server on the client's own host or
// link. Unlike CheckInternalServer, it accepts the names of services in the client's own cluster.
func CheckLocalServer(server string) error { return checkLocalHost(hostOf(server)) }

// CheckInternalAddress returns an InternalServerError for an address of the client's own host or link, or
// of the metadata service of a cloud.
func CheckInternalAddress(address netip.Addr) error {
	if kind := kindOfAddress(address); kind != "" {
		return &InternalServerError{Kind: kind}
	}

	return nil
}

// hostOf returns the host of a URL as DNS compares it; empty if there is none.
func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return "" // RESTConfig refuses it.
	}

	return strings.TrimRight(strings.ToLower(parsed.Hostname()), ".")
}

// checkLocalHost checks addresses, and names of the client's own host.
func checkLocalHost(host string) error {
	address, err := netip.ParseAddr(host)

	switch {
	case err == nil:
		return CheckInternalAddress(address)
	case isNumeric(host):
		return &InternalServerError{Kind: "an IPv4 address in an unusual form"}
	case within(host, "localhost"), within(host, "localdomain"):
		return &InternalServerError{Kind: "a name of the local host"}
	default:
		return nil
	}
}

// isNumeric reports whether a host that is not an address ends with a number. Resolvers of C libraries accept
// 127.1, 0x7f.1 and 2130706433 for 127.0.0.1. No domain ends with a number.
func isNumeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	digits, hexadecimal := strings.CutPrefix(last, "0x")

	allowed := "0123456789"
	if hexadecimal {
		allowed += "abcdef"
	}

	return last != "" && strings.Trim(digits, allowed) == ""
}

// kindOfName describes the name of a service in the client's own cluster, or a name that the search
// domains expand to one. It returns an empty string for other names.
func kindOfName(host string) string {
	switch {
	case within(host, "svc"), within(host, "cluster.local"), host == "kubernetes.default":
		return "the name of a service in the cluster of the client"
	case !strings.Contains(host, ".") && host != "" && !strings.Contains(host, ":"):
		return "a name without a domain"
	default:
		return ""
	}
}

// within reports whether a name is a domain, or one of its subdomains.
func within(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

var (
	// reserved are ranges whose addresses lead to the client's own host, or not to a single host.
	reserved = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4")}
	// metadataServices are the addresses of clouds' metadata services that are not link-local: Alibaba,
	// Azure, Oracle, AWS, Google.
	metadataServices = []netip.Addr{
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
		netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	}
)

// kindOfAddress describes an internal address; empty for other addresses.
func kindOfAddress(address netip.Addr) string {
	address = address.WithZone("").Unmap()

	switch {
	case address.IsLoopback():
		return "a loopback address"
	case address.IsUnspecified():
		return "the unspecified address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	case address.IsMulticast():
		return "a multicast address"
	case slices.Contains(metadataServices, address):
		return "the metadata service of a cloud"
	case slices.ContainsFunc(reserved, func(r netip.Prefix) bool { return r.Contains(address) }):
		return "a reserved address"
	}

	if embedded, ok := embeddedIPv4(address); ok {
		return kindOfAddress(embedded)
	}

	return ""
}

// embeddings are the prefixes of IPv6 addresses that embed an IPv4 address, and the index of the IPv4
// address's first byte.
var embeddings = []struct {
	prefix netip.Prefix
	index  int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 in a local network
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

func embeddedIPv4(address netip.Addr) (netip.Addr, bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}

	bytes := address.As16()

	for _, e := range embeddings {
		if e.prefix.Contains(address) {
			return netip.AddrFrom4([4]byte(bytes[e.index : e.index+4])), true
		}
	}

	return netip.Addr{}, false
}
