package hostile

import (
	"os"
	"strconv"
	"strings"
)

// MemoryLimit is the environment variable with which the shipped manifests limit the sidecar's memory. Go's runtime collects garbage more
// often near the limit.
const MemoryLimit = "GOMEMLIMIT=128MiB"

// PeakMemory returns the most memory that this process has had, in KiB; 0 where the kernel does not say so. What wait(2) tells of a child
// begins with its parent's.
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
