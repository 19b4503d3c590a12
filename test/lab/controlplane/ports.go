package controlplane

import (
	"net"
	"strconv"
)

// loopback is the address of all listeners of the lab.
const loopback = "127.0.0.1"

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
