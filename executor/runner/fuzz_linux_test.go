package runner_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hare-sched/hare/executor/runner"
)

// FuzzTaskDirectory reads the files that agent and runner leave for each other. Bytes that neither of them wrote
// give no lease without end, and no panic.
func FuzzTaskDirectory(f *testing.F) {
	f.Add("00000000000000000001\n", `{"exit_code":0,"ran_s":1}`, `{"pid":1,"start":1}`)
	f.Add("-9223372036854775808", `{"signal":"SIGKILL"`, `{"pid":-1,"start":18446744073709551615}`)
	f.Add("9223372036854775807x", `[]`, `null`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, lease, exit, process string) {
		for name, text := range map[string]string{"lease": lease, "exit.json": exit, "runner.json": process} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if left := runner.Lease(dir); left > 0 && lease[:min(1, len(lease))] == "-" && left != time.Second {
			t.Errorf("the lease %q lasts for %v", lease, left)
		}
		_, _ = runner.Find(dir)
		_, _ = runner.ReadExit(dir)
	})
}
