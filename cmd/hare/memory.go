package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// machineMemory is how many bytes the process may take: the least of the machine's memory, the limit of its cgroup and
// GOMEMLIMIT; 0 where none is known.
func machineMemory() int64 {
	least := debug.SetMemoryLimit(-1) // MaxInt64 without GOMEMLIMIT
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					least = min(least, n<<10)
				}
			}
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(path); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// sessionMemory is the default of --session-memory in bytes.
func sessionMemory() int64 { return max(512<<20, machineMemory()/4) }
