package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFindCgroup(t *testing.T) {
	const v2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "33 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"34 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const container = "40 24 0:30 /docker/x /sys/fs/my\\040cgroup rw - cgroup2 cgroup rw\n"
	for _, test := range []struct{ mounts, own, want string }{
		{v2, "0::/user.slice/hare.service\n", "/sys/fs/cgroup/user.slice/hare.service"},
		{v2, "0::/\n", "/sys/fs/cgroup"},
		{hybrid, "4:memory:/m\n0::/u\n", "/sys/fs/cgroup/unified/u"},
		{container, "0::/docker/x/agent\n", "/sys/fs/my cgroup/agent"},
		{container, "0::/docker/xy\n", ""}, // is not shown there
		{container, "0::/\n", ""},
		{v2, "0::/../other\n", ""}, // outside of the namespace
		{v2, "4:memory:/m\n", ""},
		{"33 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "0::/\n", ""},
		{"", "", ""},
	} {
		if got := findCgroup(test.mounts, test.own); got != test.want {
			t.Errorf("%q in %q: %q, want %q", test.own, test.mounts, got, test.want)
		}
	}
}

// TestCgroupFiles ends the processes that files like those of a cgroup name, as where the kernel knows no cgroup.kill.
func TestCgroupFiles(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for i, d := range []string{dir, below} {
		c := exec.Command("sleep", "1000")
		c.Env = []string{} // nothing but the file says whose it is
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		t.Cleanup(func() {
			_ = c.Process.Kill()
			<-ended
		})
		pids = append(pids, c.Process.Pid)
		text := fmt.Sprintf("%d\n", c.Process.Pid)
		if i == 0 {
			text += "0\n1\nx\n" // as of processes that are not to be seen here, and never init
		}
		if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := inCgroup(dir); !slices.Equal(got, pids) {
		t.Errorf("%v, want %v", got, pids)
	}
	f := family{ancestor: -1, token: "no process has this", cgroup: dir}
	if err := f.kill(10 * time.Second); err != nil {
		t.Error(err)
	}
	if left := f.members(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if got := inCgroup(filepath.Join(dir, "gone")); len(got) > 0 {
		t.Error(got)
	}
}

func TestCgroupsThatCannotBeMade(t *testing.T) {
	if err := tryCgroup(t.TempDir()); err == nil {
		t.Error("a directory that is no cgroup is taken for one")
	}
	for _, s := range []Spec{{Token: "x"}, {Cgroup: "/sys/fs/cgroup"}} {
		if dir := s.cgroup(); dir != "" {
			t.Errorf("%+v has the cgroup %s", s, dir)
		}
	}
}
