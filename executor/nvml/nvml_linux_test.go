package nvml

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the process of the library.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "nvml" {
		if err := Serve(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake builds the stand-in for the library.
func fake(t *testing.T, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-o", lib, "testdata/fake.c"}, flags...)
	if text, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return lib
}

func source(t *testing.T, lib string) (*Source, func(orders string)) {
	t.Helper()
	orders := filepath.Join(t.TempDir(), "orders")
	t.Setenv("FAKE_NVML", orders)
	s, err := open(t.Context(), []string{os.Args[0], "nvml", lib}, os.Environ(),
		slog.New(slog.NewTextHandler(io.Discard, nil)), 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(text string) {
		if err := os.WriteFile(orders, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until the faults of a source are as many as wanted, and returns them.
func await(t *testing.T, s *Source, want int) map[int]string {
	t.Helper()
	for range 3000 {
		if f, err := s.Faults(t.Context()); err != nil {
			t.Fatal(err)
		} else if len(f) == want {
			return f
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never %d faults: %v", want, s.faults)
	return nil
}

func TestFaults(t *testing.T) {
	s, order := source(t, fake(t))
	d := s.Devices()
	if len(d) != 2 || d[0].Type != "H100" || d[1].Type != "T4" || s.Visible(1) != "GPU-fake-1" || s.Pretended() {
		t.Fatal(d)
	}
	await(t, s, 0)
	order("xid 1 31\n") // a program's own error
	time.Sleep(1500 * time.Millisecond)
	await(t, s, 0)
	order("xid 0 79\n")
	if f := await(t, s, 1); !strings.Contains(f[0], "XID 79") {
		t.Error(f)
	}
	order("lost 1\n")
	if f := await(t, s, 2); f[1] != "GPU is lost" {
		t.Error(f)
	}
}

// TestErrorsOfMemory checks errors that the driver counts, and bad rows that cannot be replaced.
func TestErrorsOfMemory(t *testing.T) {
	s, order := source(t, fake(t))
	await(t, s, 0)
	order("ecc 1 5\n")
	if f := await(t, s, 1); f[1] != "2 uncorrectable ECC errors since its agent began" {
		t.Error(f)
	}
	order("rows 0\n")
	if f := await(t, s, 2); !strings.Contains(f[0], "no rows are left") {
		t.Error(f)
	}
}

// TestInstances checks that a GPU which is divided is offered by its instances, and that its faults are theirs.
func TestInstances(t *testing.T) {
	s, order := source(t, fake(t, "-DMIG"))
	d := s.Devices()
	if len(d) != 3 || d[0].Type != "H100-1g.10gb" || d[1].Type != d[0].Type || d[2].Type != "T4" ||
		s.Visible(1) != "MIG-fake-1" {
		t.Fatal(d)
	}
	order("xid 0 79\n")
	if f := await(t, s, 2); f[2] != "" || f[0] != f[1] {
		t.Error(f)
	}
	if _, err := Open(t.Context(), []string{os.Args[0], "nvml", fake(t, "-DMIG", "-DEMPTY")}, os.Environ(),
		slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err) // the other GPU is there
	}
}

// TestHeat counts looks: a GPU is not well after a minute of heat in one go, and well after two minutes without.
func TestHeat(t *testing.T) {
	var h heat
	for at, c := range []struct {
		looks     int
		hot, want bool
	}{{hotFor - 1, true, false}, {1, false, false},
		{hotFor - 1, true, false}, {1, true, true}, {coolFor - 1, false, true},
		{1, true, true}, {coolFor - 1, false, true}, {1, false, false}, {hotFor, true, true}} {
		for range c.looks {
			if got := h.look(c.hot); got != c.want && h.looks == c.looks {
				t.Errorf("step %d: %t", at, got)
			}
		}
	}
}

// TestHotGPU looks at a GPU whose heat comes and goes.
func TestHotGPU(t *testing.T) {
	lib := fake(t)
	orders := filepath.Join(t.TempDir(), "orders")
	t.Setenv("FAKE_NVML", orders)
	if err := os.WriteFile(orders, []byte("hot 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x, _, err := newWatch(lib)
	if err != nil {
		t.Fatal(err)
	}
	see := func(looks int) string {
		for range looks {
			x.passing = map[int]string{}
			x.lookAt(0)
			x.lookAt(1)
		}
		return fmt.Sprint(x.passing, x.faults)
	}
	if got := see(hotFor); got != "map[1:it is slowed down by its temperature] map[]" {
		t.Error(got)
	}
	if err := os.Remove(orders); err != nil {
		t.Fatal(err)
	}
	if got := see(coolFor); got != "map[] map[]" {
		t.Error(got)
	}
}

// A library that crashes or hangs takes no agent with it: its process is started again.
func TestBrokenDrivers(t *testing.T) {
	s, order := source(t, fake(t, "-DOLD")) // without events
	await(t, s, 0)
	order("crash\n")
	if f := await(t, s, 2); !strings.Contains(f[0], "does not answer") {
		t.Error(f)
	}
	order("hang\n")
	time.Sleep(time.Second)
	order("")
	await(t, s, 0)
}

func TestNoDriver(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for lib, want := range map[string]string{filepath.Join(t.TempDir(), "none.so"): "driver is not there"} {
		if _, err := Open(t.Context(), []string{os.Args[0], "nvml", lib}, os.Environ(), log); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), []string{"/no/such/program"}, nil, log); err == nil {
		t.Error("no program and no error")
	}
}

func TestTypeOf(t *testing.T) {
	for product, want := range map[string]string{
		"Tesla V100-SXM2-16GB": "V100", "NVIDIA A100-SXM4-40GB": "A100", "NVIDIA H100 80GB HBM3": "H100",
		"Tesla T4": "T4", "NVIDIA L4": "L4", "NVIDIA GeForce RTX 3090": "RTX3090", "Quadro RTX 6000": "RTX6000",
		"NVIDIA TITAN RTX": "RTX", "NVIDIA GH200 480GB": "GH200", "Graphics Device": "Graphics-Device",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb": "A100-1g.5gb",
		"NVIDIA A10G":                      "A10G", "Tesla K80": "K80", "NVIDIA H200": "H200",
	} {
		if got := TypeOf(product); got != want {
			t.Errorf("%s: %s, want %s", product, got, want)
		}
	}
}
