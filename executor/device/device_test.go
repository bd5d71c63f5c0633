package device_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hare-sched/hare/executor/device"
)

func TestParse(t *testing.T) {
	s, err := device.Parse("V100=2, T4=1")
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Devices(); len(d) != 3 || d[0].Type != "T4" || d[2].Type != "V100" || s.Visible(2) != "2" ||
		!s.Pretended() {
		t.Error(d)
	}
	if s, err := device.Parse("cpu=2"); err != nil || s.Pretended() || s.Visible(1) != "" {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "V100", "V100=0", "V100=-1", "=2", "V100=x", "cpu=1,T4=1", "V100=1000"} {
		if _, err := device.Parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	device.FaultFile = filepath.Join(t.TempDir(), "faults")
	if f, err := s.Faults(t.Context()); err != nil || len(f) != 0 {
		t.Error(f, err)
	}
	if err := os.WriteFile(device.FaultFile, []byte("1 XID 79\nx\n9 none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Faults(t.Context()); err != nil || len(f) != 1 || f[1] != "XID 79" {
		t.Error(f, err)
	}
}
