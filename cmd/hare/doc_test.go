package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var updatePage = flag.Bool("update", false, "write what the commands of pages under docs print into them")

// pageFiles are in the directory before the first command runs.
var pageFiles = map[string]string{
	"cluster.json": `{"nodes": [{"name": "a", "gpus": {"V100": 1}}, {"name": "b", "gpus": {"T4": 2}}]}` + "\n",
	"events.ndjson": `{"seq": 1, "at_s": 0, "type": "job_arrived", "job": {"id": "bert", "weight": 2, "tasks": 2,` +
		` "on": {"V100": {"compute_s": 1.2, "sync_s": 0.1}, "T4": {"compute_s": 3}}}}
{"seq": 2, "at_s": 0.4, "type": "job_arrived", "job": {"id": "vgg", "tasks": 2, "sync": "gang", "on": {"T4": {}}}}
{"seq": 3, "at_s": 0.5, "type": "job_arrived", "job": {"id": "gpt", "on": {"V100": {"compute_s": 2}}}}
{"seq": 4, "at_s": 1.3, "type": "task_ended", "job": "bert", "round": 0, "task": 0, "gpu": "a/0", "compute_s": 1.2,` +
		` "sync_s": 0.1}
`,
}

// checkoutFolders are the folders of the checkout that pages read: their commands are typed in its root.
var checkoutFolders = []string{"examples", "shadow"}

// changing matches what differs from run to run.
var changing = regexp.MustCompile(`[a-z2-7]{26}|[0-9a-f]{16}|"created":"[^"]*"|"at_s":\d+\.\d{3,}`)

// changingKeys matches the same, and the dates of keys.
var changingKeys = regexp.MustCompile(changing.String() +
	`|\b[a-z2-7]{16}\b|hare_[a-z2-7_]{69}|20\d\d-\d\d-\d\d(T[0-9:.]+Z)?`)

func TestOnlinePage(t *testing.T) {
	checkPage(t, "../../docs/online.md", changing, 20, "timeout")
}

// TestReadme runs the tour of the front page as a reader would type it.
func TestReadme(t *testing.T) {
	checkPage(t, "../../README.md", changing, 12)
}

func TestSecurityPage(t *testing.T) {
	checkPage(t, "../../docs/security.md", changingKeys, 20, "openssl")
}

// checkPage runs every command of a page, in order, in one shell, and compares the
// output with the page, except for what changes from run to run. The blocks of a
// page contain commands, which begin with "$ ", and their output. A command that
// contains <<'END' extends to the line END.
func checkPage(t *testing.T, page string, changing *regexp.Regexp, least int, needs ...string) {
	for _, name := range append(needs, "bash", "curl") {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	sh := newShell(t)
	var written strings.Builder
	lines := strings.SplitAfter(string(text), "\n")
	commands := 0
	for i := 0; i < len(lines); {
		command, is := strings.CutPrefix(lines[i], "    $ ")
		written.WriteString(lines[i])
		i++
		if !is {
			continue
		}
		if strings.Contains(command, "<<'END'") {
			for end := false; !end && i < len(lines); i++ {
				written.WriteString(lines[i])
				line := strings.TrimPrefix(lines[i], "    ")
				command += line
				end = line == "END\n"
			}
		}
		want := ""
		printed := func(i int) bool {
			return i < len(lines) && strings.HasPrefix(lines[i], "    ") && !strings.HasPrefix(lines[i], "    $ ")
		}
		for ; printed(i) || i < len(lines) && lines[i] == "\n" && printed(i+1); i++ {
			want += strings.TrimPrefix(lines[i], "    ")
		}
		got := strings.TrimRight(sh.run(command), "\n")
		commands++
		if changing.ReplaceAllString(got, "*") != changing.ReplaceAllString(strings.TrimRight(want, "\n"), "*") &&
			!*updatePage {
			t.Errorf("$ %sprints\n%s\nand the page says\n%s", command, got, want)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if line != "" {
				line = "    " + line
			}
			if got != "" {
				written.WriteString(line + "\n")
			}
		}
	}
	if commands < least {
		t.Errorf("%d commands", commands)
	}
	if *updatePage && !t.Failed() {
		if err := os.WriteFile(page, []byte(written.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shell is a bash in an empty directory that has hare on its PATH.
type shell struct {
	t       *testing.T
	dir     string
	in      io.Writer
	out     *bufio.Reader
	address string // address of the server that was started last
}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "hare"),
		[]byte(fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asHare, self)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range checkoutFolders {
		target, err := filepath.Abs(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range pageFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("bash")
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C", "no_proxy=127.0.0.1")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		guard.Stop()
		_ = in.Close()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // also kills servers that the page did not stop
		_ = c.Wait()
	})
	return &shell{t: t, dir: dir, in: in, out: bufio.NewReader(out)}
}

const advertised = "127.0.0.1:8080"

// run returns the output of a command. A server gets a free port, which is replaced
// by the port of the page.
func (s *shell) run(command string) string {
	s.t.Helper()
	serves := strings.Contains(command, "hare serve ") && strings.Contains(command, "serve.log")
	if serves {
		command = "rm -f serve.log; " + strings.Replace(command, "hare serve", "hare serve --listen 127.0.0.1:0", 1)
	} else if s.address != "" {
		command = strings.ReplaceAll(command, advertised, s.address)
	}
	const end = "-- end of the command --\n"
	if _, err := io.WriteString(s.in, command+"echo '"+strings.TrimSpace(end)+"'\n"); err != nil {
		s.t.Fatal(err)
	}
	var out strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("$ %s%s%v", command, out.String(), err)
		}
		before, found := strings.CutSuffix(line, end)
		out.WriteString(before)
		if found {
			if before != "" {
				out.WriteString("\n")
			}
			break
		}
	}
	if serves {
		was := s.address
		s.listening()
		if was != "" {
			s.run("SESSION=${SESSION/" + was + "/" + s.address + "}\n")
		}
	}
	if s.address != "" {
		return strings.ReplaceAll(out.String(), s.address, advertised)
	}
	return out.String()
}

var listens = regexp.MustCompile(`msg=listening address=(\S+)`)

// listening waits for the server's address.
func (s *shell) listening() {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
		if err != nil {
			continue
		}
		if m := listens.FindSubmatch(text); m != nil {
			s.address = string(m[1])
			return
		}
	}
	s.t.Fatal("the server does not listen")
}
