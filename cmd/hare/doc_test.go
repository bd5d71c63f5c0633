package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var updatePage = flag.Bool("update", false, "write what the commands of pages under docs print into them")

// changing matches what differs from run to run.
var changing = regexp.MustCompile(`[a-z2-7]{26}|[0-9a-f]{16}|"created":"[^"]*"|"at_s":\d+\.\d{3,}`)

// changingKeys matches the same, and the dates of keys.
var changingKeys = regexp.MustCompile(changing.String() +
	`|\b[a-z2-7]{16}\b|hare_[a-z2-7_]{69}|20\d\d-\d\d-\d\d(T[0-9:.]+Z)?`)

func TestOnlinePage(t *testing.T) {
	checkPage(t, "../../docs/use/online.md", changing, 20, "timeout")
}

// TestReadme runs the tour of the front page as a reader would type it.
func TestReadme(t *testing.T) {
	checkPage(t, "../../README.md", changing, 12)
}

func TestSecurityPage(t *testing.T) {
	checkPage(t, "../../docs/use/secure.md", changingKeys, 12, "openssl")
}

// checkPage pastes the blocks of a page, in order, into one shell in a checkout where nothing but bin/hare was built,
// and compares what they print with the page, except for what changes from run to run.
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
	t.Parallel()
	sh := newShell(t)
	var written strings.Builder
	commands := 0
	for _, b := range pageBlocks(string(text)) {
		written.WriteString(b.before)
		if len(b.commands) == 0 {
			continue
		}
		if slices.ContainsFunc(b.commands, func(c pageCommand) bool { return notHere.MatchString(c.text) }) {
			for _, c := range b.commands {
				written.WriteString(c.lines + c.printed)
			}
			continue
		}
		answers := sh.paste(b.commands)
		commands += len(answers)
		for i, c := range b.commands {
			got := strings.TrimRight(answers[i].text, "\n")
			written.WriteString(c.lines)
			if b.silent && answers[i].status == 0 {
				continue
			}
			if changing.ReplaceAllString(got, "*") != changing.ReplaceAllString(c.want, "*") &&
				!*updatePage || b.silent {
				t.Errorf("$ %sends with %d and prints\n%s\nand the page says\n%s", c.text, answers[i].status, got, c.want)
			}
			for line := range strings.SplitSeq(got, "\n") {
				if line != "" {
					line = b.indent + line
				}
				if got != "" {
					written.WriteString(line + "\n")
				}
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

// pageBlock is what a reader pastes at once: commands, which begin with "$ ", and below each what it prints. A block
// in which nothing is printed shows what to type, and its commands only have to succeed.
type pageBlock struct {
	before   string // the page between the block before and this one
	indent   string
	commands []pageCommand
	silent   bool
}

type pageCommand struct {
	lines   string // as on the page
	printed string // likewise
	text    string
	want    string
}

var (
	pageCommandLine = regexp.MustCompile(`^( {4,})\$ (.*\n)`)
	hereDocument    = regexp.MustCompile(`<<-?'?(\w+)`)
)

// pageBlocks divides a page; the last block has no commands. A command extends over the lines that a backslash joins,
// and to the end of its here document.
func pageBlocks(text string) []pageBlock {
	lines := strings.SplitAfter(text, "\n")
	var blocks []pageBlock
	b := pageBlock{silent: true}
	end := func() {
		blocks = append(blocks, b)
		b = pageBlock{silent: true}
	}
	for i := 0; i < len(lines); {
		m := pageCommandLine.FindStringSubmatch(lines[i])
		if m == nil {
			if len(b.commands) > 0 {
				end()
			}
			b.before += lines[i]
			i++
			continue
		}
		b.indent = m[1]
		c := pageCommand{lines: lines[i], text: m[2]}
		more := func() string {
			c.lines += lines[i]
			line := strings.TrimPrefix(lines[i], b.indent)
			c.text += line
			i++
			return line
		}
		i++
		for strings.HasSuffix(c.text, "\\\n") && i < len(lines) {
			more()
		}
		if here := hereDocument.FindStringSubmatch(c.text); here != nil {
			for i < len(lines) && more() != here[1]+"\n" {
			}
		}
		printed := func(i int) bool {
			return i < len(lines) && strings.HasPrefix(lines[i], b.indent) && !strings.HasPrefix(lines[i], b.indent+"$ ")
		}
		for ; printed(i) || i < len(lines) && lines[i] == "\n" && printed(i+1); i++ {
			c.printed += lines[i]
			c.want += strings.TrimPrefix(lines[i], b.indent)
		}
		c.want = strings.TrimRight(c.want, "\n")
		b.silent = b.silent && c.want == ""
		b.commands = append(b.commands, c)
	}
	end()
	return blocks
}

// shell is a bash in a directory that looks like a checkout in which hare was built, and has the environment of a
// machine on which somebody has just logged in.
type shell struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Reader
	port string // a free one, in the place of that of the pages
}

// notInCheckout are names in the checkout that pages themselves write.
var notInCheckout = []string{".git", "bin", "build", "data"}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "hare"),
		[]byte(fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asHare, self)), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains(notInCheckout, e.Name()) || !e.IsDir() {
			continue
		}
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	c := exec.Command("bash", "--norc")
	c.Dir = dir
	c.Env = []string{"HOME=" + home, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
	if library, ok := os.LookupEnv("HARE_LIBHIGHS"); ok {
		c.Env = append(c.Env, "HARE_LIBHIGHS="+library) // the tests' binary has no lib beside it
	}
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
	s := &shell{t: t, in: in, out: bufio.NewReader(out), port: port}
	// What a command leaves in $? is there for the next one, too.
	const ended = "ended() { local status=$?; echo \"-- ended with $status --\"; return $status; }\n"
	if _, err := io.WriteString(s.in, ended); err != nil {
		t.Fatal(err)
	}
	return s
}

// advertised is where the pages have their server.
const advertised = "127.0.0.1:8080"

var (
	serves       = regexp.MustCompile(`\bhare serve( .*)?`)
	commandEnded = regexp.MustCompile(`^(.*)-- ended with (\d+) --\n$`)
)

// answer is what a command printed, and its status.
type answer struct {
	text   string
	status int
}

// paste writes all commands at once, as the clipboard does: nothing waits for a server between them, and a command
// that reads standard input takes the commands that follow.
func (s *shell) paste(commands []pageCommand) []answer {
	s.t.Helper()
	var script strings.Builder
	for _, c := range commands {
		text := serves.ReplaceAllStringFunc(c.text, func(call string) string {
			if strings.Contains(call, "--listen") {
				return call
			}
			return strings.Replace(call, "hare serve", "hare serve --listen "+advertised, 1)
		})
		script.WriteString(text + "ended\n")
	}
	here := "127.0.0.1:" + s.port
	if _, err := io.WriteString(s.in, strings.ReplaceAll(script.String(), advertised, here)); err != nil {
		s.t.Fatal(err)
	}
	answers := make([]answer, len(commands))
	for i, c := range commands {
		var out strings.Builder
		for {
			line, err := s.out.ReadString('\n')
			if err != nil {
				s.t.Fatalf("$ %s%s%v", c.text, out.String(), err)
			}
			if m := commandEnded.FindStringSubmatch(line); m != nil {
				out.WriteString(m[1])
				answers[i].status, _ = strconv.Atoi(m[2])
				break
			}
			out.WriteString(line)
		}
		answers[i].text = strings.ReplaceAll(out.String(), here, advertised)
	}
	return answers
}
