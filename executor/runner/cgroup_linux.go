package runner

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CgroupParent is the directory of the cgroup (version 2) of this process, if cgroups can be made there: the process
// is root, or the cgroup was delegated to its user, as systemd's Delegate=yes does. Otherwise it is "". No controller
// is enabled there, so that tasks have no limits that they would not have without.
func CgroupParent() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	parent := findCgroup(string(mounts), string(own))
	if parent == "" || tryCgroup(parent) != nil {
		return ""
	}
	return parent
}

// tryCgroup makes a cgroup below parent, and removes it.
func tryCgroup(parent string) error {
	try := filepath.Join(parent, fmt.Sprintf("hare-try-%d", os.Getpid()))
	if err := os.Mkdir(try, 0o700); err != nil {
		return err
	}
	defer os.Remove(try)
	// A process moves from the parent's list to the child's, and must be allowed to write both.
	for _, dir := range []string{parent, try} {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

// findCgroup finds the directory of a cgroup from the texts of /proc/self/mountinfo and /proc/self/cgroup; "" where
// no cgroup file system of version 2 shows it.
func findCgroup(mounts, own string) string {
	path := ""
	for line := range strings.Lines(own) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = p
		}
	}
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/..") {
		return ""
	}
	for line := range strings.Lines(mounts) {
		// 36 35 0:28 /root /mount/point options - type source options
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		below, err := filepath.Rel(fields[3], path)
		if err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			return filepath.Join(unescape(fields[4]), below)
		}
	}
	return ""
}

// unescape reads a path of mountinfo, which has \040 for a space.
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// cgroup is the directory of the cgroup of a task; "" where it has none.
func (s *Spec) cgroup() string {
	if s.Cgroup == "" || s.Token == "" {
		return ""
	}
	return filepath.Join(s.Cgroup, "hare-"+s.Token)
}

// inCgroup lists the processes of a cgroup and of those below it.
func inCgroup(dir string) (pids []int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a cgroup that is gone has no processes
		}
		f, err := os.Open(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if p, err := strconv.Atoi(lines.Text()); err == nil && p > 1 {
				pids = append(pids, p)
			}
		}
		return nil
	})
	return pids
}

// killCgroup ends all processes of a cgroup and of those below it at once, also those that are being started. Kernels
// before 5.14 cannot, and the processes of inCgroup are ended one by one.
func killCgroup(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// removeCgroup removes a cgroup without processes, and those below it.
func removeCgroup(dir string) {
	if dir == "" {
		return
	}
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for i := len(all) - 1; i >= 0; i-- {
		_ = os.Remove(all[i])
	}
}
