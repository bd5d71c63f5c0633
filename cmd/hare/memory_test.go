package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryShare(t *testing.T) {
	const ram = "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		limit int64
		want  int64
	}{
		{"nothing is known", nil, math.MaxInt64, unknownMemory / 4},
		{"the machine", map[string]string{"proc/meminfo": ram}, math.MaxInt64, 4 << 30},
		{"GOMEMLIMIT", map[string]string{"proc/meminfo": ram}, 8 << 30, 2 << 30},
		{"a group without a limit", map[string]string{"proc/meminfo": ram, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n"}, math.MaxInt64, 4 << 30},
		{"the group around the group", map[string]string{"proc/meminfo": ram, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "4294967296\n"}, math.MaxInt64, 1 << 30},
		{"a container whose group is the root", map[string]string{"proc/meminfo": ram,
			"proc/self/cgroup": "0::/../../outside\n", "sys/fs/cgroup/memory.max": "4294967296\n"}, math.MaxInt64, 1 << 30},
		{"version 1", map[string]string{"proc/meminfo": ram, "proc/self/cgroup": "3:cpu:/y\n2:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4294967296\n"}, math.MaxInt64, 1 << 30},
		{"a small machine", map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\n"}, math.MaxInt64, leastMemory},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryShare(4, root, c.limit); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}
