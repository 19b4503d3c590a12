package hostile

import (
	"os"
	"strconv"
	"strings"
)

// MemoryLimit is the environment variable with which the shipped manifests limit the sidecar's
// memory. Near the limit, Go's runtime collects garbage more often.
const MemoryLimit = "GOMEMLIMIT=128MiB"

// PeakMemory returns the peak memory of this process in KiB, or 0 if the kernel does not report it.
// wait(2) is unsuitable: its value for a child starts at the parent's.
func PeakMemory() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}

	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")

	peak, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(line, "kB")))
	if err != nil {
		return 0
	}

	return peak
}
