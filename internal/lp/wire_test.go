package lp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// everyFrame allows all types up to n bytes.
func everyFrame(n int64) func(frameType) int64 {
	return func(frameType) int64 { return n }
}

func TestProblemRoundTrip(t *testing.T) {
	problems := []*Problem{small(), {Cost: []float64{1}, ColLower: []float64{0}, ColUpper: []float64{math.Inf(1)}}}
	for _, p := range problems {
		frame := seal(appendProblem(newFrame(nil), 42, p), frameSolve)
		if int64(len(frame)-headerBytes) != requestBytes(p) {
			t.Errorf("%d bytes, requestBytes says %d", len(frame)-headerBytes, requestBytes(p))
		}
		typ, payload, err := readFrame(bytes.NewReader(frame), nil, everyFrame(1<<20))
		if err != nil || typ != frameSolve {
			t.Fatal(typ, err)
		}
		seq, got, err := decodeProblem(payload)
		if err != nil || seq != 42 {
			t.Fatal(seq, err)
		}
		want := *p
		if want.Start == nil {
			want.Start = []int32{0}
		}
		if d := cmp.Diff(&want, got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	}
}

// Any single flipped bit of an answer is detected.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	p := small()
	frame := seal(appendSolution(newFrame(nil), 7, &Solution{Objective: 11, X: []float64{3, 1},
		RowDual: []float64{2, 0}}), frameSolution)
	read := func(frame []byte) error {
		typ, payload, err := readFrame(bytes.NewReader(frame), nil, everyFrame(solutionBytes(p)))
		if err != nil {
			return err
		}
		if typ != frameSolution {
			return errors.New("another type")
		}
		_, err = decodeSolution(payload, 7, p)
		return err
	}
	if err := read(frame); err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(frame) {
		frame[i/8] ^= 1 << (i % 8)
		if read(frame) == nil {
			t.Errorf("bit %d of byte %d goes unnoticed", i%8, i/8)
		}
		frame[i/8] ^= 1 << (i % 8)
	}
	for n := range len(frame) {
		if read(frame[:n]) == nil {
			t.Errorf("%d bytes of %d are taken for the whole", n, len(frame))
		}
	}
}

func TestFailureRoundTrip(t *testing.T) {
	for _, tt := range []struct{ give, want error }{
		{ErrInfeasible, ErrInfeasible},
		{errors.New("x"), &EngineError{}},
	} {
		var out bytes.Buffer
		w := worker{out: &out}
		if err := w.fail(tt.give); err != nil {
			t.Fatal(err)
		}
		_, payload, err := readFrame(&out, nil, everyFrame(maxFailureBytes))
		if err != nil {
			t.Fatal(err)
		}
		var engine *EngineError
		if got := decodeFailure(payload); !errors.Is(got, tt.want) && !errors.As(got, &engine) {
			t.Errorf("%v became %v", tt.give, got)
		}
	}
}

// Frames of types that this version does not know get a failure as answer.
func TestUnknownFrameIsRefused(t *testing.T) {
	var out bytes.Buffer
	frame := seal(append(newFrame(nil), "later"...), frameType(200))
	if code := WorkerMain(bytes.NewReader(frame), &out); code != 0 {
		t.Errorf("exit status %d", code)
	}
	typ, payload, err := readFrame(&out, nil, everyFrame(maxFailureBytes))
	if err != nil || typ != frameFailure || decodeFailure(payload) == nil {
		t.Errorf("type %d, %v", typ, err)
	}
}

func FuzzDecodeProblem(f *testing.F) {
	f.Add(appendProblem(nil, 1, small()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, p, err := decodeProblem(b)
		if err == nil && p.check() != nil {
			t.Error("a malformed problem is accepted")
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add(seal(append(newFrame(nil), "abc"...), frameHello))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	p := small()
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		r := bytes.NewReader(b)
		typ, payload, err := readFrame(r, nil, everyFrame(most))
		if err != nil {
			return
		}
		if len(payload) > most || r.Len()+headerBytes+len(payload) != len(b) {
			t.Errorf("payload of %d bytes out of %d", len(payload), len(b))
		}
		if typ == frameSolution {
			if s, err := decodeSolution(payload, 1, p); err == nil && s.check(p) != nil {
				t.Error("a malformed solution is accepted")
			}
		}
		_ = decodeFailure(payload)
	})
}

// Input that is not a frame ends the worker.
func TestWorkerEndsOnNonsense(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		b := make([]byte, rng.IntN(200))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if len(b) > 3 {
			b[2], b[3] = 0, 0 // else a gigabyte would be allocated for each
		}
		WorkerMain(bytes.NewReader(b), io.Discard)
	}
}
