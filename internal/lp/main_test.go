package lp

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is its own worker. This variable makes the worker sound, or makes it
// misbehave on the n-th solve ("crash:3") or at random ("crash:~20", one solve in
// twenty).
const modeVariable = "HARE_LP_TEST_WORKER"

func TestMain(m *testing.M) {
	if mode, ok := os.LookupEnv(modeVariable); ok {
		os.Exit(testWorker(mode))
	}
	ServeIfWorker()
	goleak.VerifyTestMain(m)
}

func testPool(t *testing.T, mode string, cfg PoolConfig) *Pool {
	t.Helper()
	cfg.Command = []string{"/proc/self/exe"}
	cfg.Env = append(cfg.Env, modeVariable+"="+mode)
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// testWorker wraps the real worker so that some of its answers are bad.
func testWorker(mode string) int {
	what, when, _ := strings.Cut(mode, ":")
	switch what {
	case "sound":
		return WorkerMain(os.Stdin, os.Stdout)
	case "parent": // has a worker of its own and prints its process ID
		return testParent()
	case "mute": // never says hello
		time.Sleep(time.Hour)
	case "absent":
		fmt.Fprintln(os.Stderr, "no engine on this shelf")
		return 7
	}
	out, err := protectStdout(os.Stdout)
	if err != nil {
		return 1
	}
	b := &badWriter{out: out, what: what, rng: rand.New(rand.NewPCG(uint64(os.Getpid()), 0))}
	if oneIn, ok := strings.CutPrefix(when, "~"); ok {
		b.oneIn, _ = strconv.Atoi(oneIn)
	} else {
		b.at, _ = strconv.Atoi(when)
	}
	return WorkerMain(os.Stdin, b)
}

func testParent() int {
	p, err := NewPool(PoolConfig{Size: 1, Command: []string{"/proc/self/exe"}, Env: []string{modeVariable + "=sound"}})
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := p.Ready(ctx); err != nil {
		return 1
	}
	p.mu.Lock()
	for w := range p.live {
		fmt.Println(w.cmd.Process.Pid)
	}
	p.mu.Unlock()
	time.Sleep(time.Hour)
	return 0
}

// badWriter passes whole frames on, except the chosen solutions.
type badWriter struct {
	out       io.Writer
	what      string
	at, oneIn int
	rng       *rand.Rand
	solves    int
}

func (b *badWriter) Write(frame []byte) (int, error) {
	if frameType(frame[8]) != frameSolution {
		return b.out.Write(frame)
	}
	b.solves++
	if b.oneIn > 0 && b.rng.IntN(b.oneIn) > 0 || b.oneIn == 0 && b.solves != b.at {
		return b.out.Write(frame)
	}
	frame = slices.Clone(frame)
	switch payload := frame[headerBytes:]; b.what {
	case "crash":
		fmt.Fprintln(os.Stderr, "about to crash")
		var p *int
		*p = 1
	case "exit":
		os.Exit(0)
	case "hang":
		time.Sleep(time.Hour)
	case "eat":
		var hoard [][]byte
		for {
			hoard = append(hoard, make([]byte, 64<<20))
			for i := 0; i < 64<<20; i += 4096 {
				hoard[len(hoard)-1][i] = 1
			}
		}
	case "nan":
		copy(payload[24:], appendFloats(nil, []float64{math.NaN()}))
		seal(frame, frameSolution)
	case "short":
		frame = seal(frame[:len(frame)-8], frameSolution)
	case "long":
		frame = seal(append(frame, 0, 0, 0, 0, 0, 0, 0, 0), frameSolution)
	case "stale":
		payload[0]++
		seal(frame, frameSolution)
	case "flip": // flips one random bit
		i := b.rng.IntN(8 * len(frame))
		frame[i/8] ^= 1 << (i % 8)
		if _, err := b.out.Write(frame); err != nil {
			return 0, err
		}
		os.Exit(0) // else the parent would wait for a longer frame
	case "garbage":
		for i := range frame {
			frame[i] = byte(b.rng.Uint32())
		}
	case "half":
		if _, err := b.out.Write(frame[:len(frame)/2]); err != nil {
			return 0, err
		}
		os.Exit(0)
	case "huge":
		copy(frame, []byte{0xff, 0xff, 0xff, 0xff})
	case "print":
		fmt.Println("an engine that prints to standard output")
	}
	return b.out.Write(frame)
}
