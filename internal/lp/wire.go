package lp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A frame consists of the length of the payload (4 bytes), the CRC-32C of type and
// payload (4), the type (1) and the payload; all numbers are little-endian. A worker
// answers every frame with one frame. Unknown types are answered with a failure, so that
// later versions may add types; protocolVersion changes if existing types change.
const (
	protocolVersion = 1
	headerBytes     = 9

	// maxRequestBytes limits a problem on the wire, in the parent and in the worker.
	maxRequestBytes = 1 << 30
	maxHelloBytes   = 256
	maxFailureBytes = 4 << 10
)

type frameType uint8

const (
	frameConfigure frameType = iota + 1 // parent: version, memory limit
	frameHello                          // worker: version, engine version
	frameSolve                          // parent: sequence number, problem
	frameSolution                       // worker: sequence number, solution
	frameFailure                        // worker: code, text
	frameBegin                          // parent: as frameSolve, for a worker that keeps the problem and its basis
	frameContinue                       // parent: as frameSolve, but with the rows alone that the kept problem lacks
)

type failureCode uint8

const (
	failUnavailable failureCode = iota + 1
	failInfeasible
	failUnbounded
	failEngine
)

var (
	errChecksum  = errors.New("checksum does not match")
	errTruncated = errors.New("payload is too short")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// newFrame empties buf and reserves room for the header, which seal fills in.
func newFrame(buf []byte) []byte {
	return append(buf[:0], make([]byte, headerBytes)...)
}

func seal(frame []byte, t frameType) []byte {
	frame[8] = byte(t)
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-headerBytes))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
	return frame
}

// readFrame reads one frame whose payload is at most limit(type) bytes; a negative limit
// refuses the type. The payload is stored in buf if it fits.
func readFrame(r io.Reader, buf []byte, limit func(frameType) int64) (frameType, []byte, error) {
	var head [headerBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	t := frameType(head[8])
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if most := limit(t); most < 0 {
		return 0, nil, fmt.Errorf("unexpected frame of type %d", t)
	} else if n > most {
		return 0, nil, fmt.Errorf("frame of type %d has %d bytes, more than %d", t, n, most)
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	sum := crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, buf)
	if sum != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, errChecksum
	}
	return t, buf, nil
}

// requestBytes returns the payload size of p, for a limit check before any copy.
func requestBytes(p *Problem) int64 {
	n, m, z := int64(len(p.Cost)), int64(len(p.RowLower)), int64(len(p.Index))
	return 8 + 1 + 3*4 + 24*n + 16*m + 4*m + 12*z
}

func appendProblem(b []byte, seq uint64, p *Problem) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, seq)
	var sense byte
	if p.Maximize {
		sense = 1
	}
	b = append(b, sense)
	for _, n := range []int{len(p.Cost), len(p.RowLower), len(p.Index)} {
		b = le.AppendUint32(b, uint32(n))
	}
	for _, v := range [][]float64{p.Cost, p.ColLower, p.ColUpper, p.RowLower, p.RowUpper} {
		b = appendFloats(b, v)
	}
	// The last element of Start is the number of entries.
	b = appendInts(b, p.Start[:len(p.RowLower)])
	b = appendInts(b, p.Index)
	return appendFloats(b, p.Value)
}

func decodeProblem(payload []byte) (seq uint64, p *Problem, err error) {
	c := payloadReader{rest: payload}
	seq = c.uint64()
	p = &Problem{Maximize: c.uint8() != 0}
	n, m, z := int64(c.uint32()), int64(c.uint32()), int64(c.uint32())
	if c.short || int64(len(c.rest)) != 24*n+20*m+12*z {
		return 0, nil, errTruncated
	}
	for _, v := range []struct {
		to *[]float64
		n  int64
	}{{&p.Cost, n}, {&p.ColLower, n}, {&p.ColUpper, n}, {&p.RowLower, m}, {&p.RowUpper, m}} {
		*v.to = c.floats(v.n)
	}
	p.Start = append(c.ints(m), int32(z))
	p.Index = c.ints(z)
	p.Value = c.floats(z)
	return seq, p, p.check()
}

func appendSolution(b []byte, seq uint64, s *Solution) []byte {
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Iterations))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Objective))
	b = appendFloats(b, s.X)
	return appendFloats(b, s.RowDual)
}

func solutionBytes(p *Problem) int64 {
	return 24 + 8*int64(len(p.Cost)) + 8*int64(len(p.RowLower))
}

// decodeSolution refuses every answer that cannot be an answer to p under seq.
func decodeSolution(payload []byte, seq uint64, p *Problem) (*Solution, error) {
	if int64(len(payload)) != solutionBytes(p) {
		return nil, errTruncated
	}
	c := payloadReader{rest: payload}
	if got := c.uint64(); got != seq {
		return nil, fmt.Errorf("answer to request %d, not %d", got, seq)
	}
	s := &Solution{Iterations: int64(c.uint64())}
	s.Objective = math.Float64frombits(c.uint64())
	s.X = c.floats(int64(len(p.Cost)))
	s.RowDual = c.floats(int64(len(p.RowLower)))
	return s, s.check(p)
}

func appendFloats(b []byte, v []float64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

func appendInts(b []byte, v []int32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// payloadReader reads a payload. Once the payload is too short, it returns zeros.
type payloadReader struct {
	rest  []byte
	short bool
}

func (pr *payloadReader) take(n int64) []byte {
	if pr.short || int64(len(pr.rest)) < n {
		pr.short = true
		return nil
	}
	b := pr.rest[:n]
	pr.rest = pr.rest[n:]
	return b
}

func (pr *payloadReader) uint8() uint8 {
	if b := pr.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (pr *payloadReader) uint32() uint32 {
	if b := pr.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (pr *payloadReader) uint64() uint64 {
	if b := pr.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (pr *payloadReader) floats(n int64) []float64 {
	b := pr.take(8 * n)
	v := make([]float64, len(b)/8)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return v
}

func (pr *payloadReader) ints(n int64) []int32 {
	b := pr.take(4 * n)
	v := make([]int32, len(b)/4, len(b)/4+1)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
