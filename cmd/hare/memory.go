package main

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// callParts and sessionParts are the parts of the memory that --call-memory and --session-memory take by default. A
	// large call may take three times as much where it is alone.
	callParts, sessionParts = 8, 4
	// leastMemory is the default in bytes on a small machine, and unknownMemory is taken for the memory of a machine
	// that does not say how large it is.
	leastMemory   = 512 << 20
	unknownMemory = 8 << 30
)

// memoryShare returns a part of the memory that the process may take, in bytes: of the least of the machine's memory,
// the limit of the control group and GOMEMLIMIT. The files are below root, which is "/" outside tests.
func memoryShare(parts int64, root string, goLimit int64) int64 {
	least := int64(math.MaxInt64)
	take := func(n int64) {
		if n > 0 {
			least = min(least, n)
		}
	}
	take(goLimit)
	take(machineMemory(root))
	groups, _ := os.ReadFile(path.Join(root, "proc/self/cgroup")) // without the file there are no groups
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		dir, name := "sys/fs/cgroup", "memory.max"
		if part[1] == "memory" {
			dir, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if part[1] != "" {
			continue
		}
		// The limits of the groups around a group hold as well. In a container the path may be one outside of it.
		for group := path.Clean("/" + part[2]); ; group = path.Dir(group) {
			take(number(path.Join(root, dir, group, name)))
			if group == "/" {
				break
			}
		}
	}
	if least == math.MaxInt64 {
		return unknownMemory / parts
	}
	return max(leastMemory, least/parts)
}

// number reads a file that holds a number alone, and returns 0 for other files and those that cannot be read.
func number(file string) int64 {
	text, _ := os.ReadFile(file)                                      // an error leaves no number
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is not a number
	return n
}

// machineMemory returns the memory of the machine in bytes, and 0 where that is not known.
func machineMemory(root string) int64 {
	text, _ := os.ReadFile(path.Join(root, "proc/meminfo")) // only Linux has the file
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			return n << 10
		}
	}
	return 0
}

// goMemoryLimit returns GOMEMLIMIT in bytes.
func goMemoryLimit() int64 { return debug.SetMemoryLimit(-1) }
