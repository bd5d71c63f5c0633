package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// tailBytes is how much of the end of an output is kept that is longer than its limit.
const tailBytes = 64 << 10

// Keep copies an output to a file of the directory until the output ends. Of an output that is longer than limit
// the beginning and the last bytes are kept, with a line between them that says how much is missing. It takes no
// memory but a buffer, however much is written.
func Keep(dir, name string, limit int64, from io.Reader) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // the task must not wait for a reader
		return err
	}
	defer f.Close()
	head := max(0, limit-tailBytes-200)
	written, err := io.Copy(f, io.LimitReader(from, head))
	if written < head {
		if err != nil {
			_, _ = io.Copy(io.Discard, from)
		}
		return err
	}
	tail := newRing(tailBytes)
	_, _ = io.CopyBuffer(struct{ io.Writer }{tail}, from, make([]byte, 256<<10))
	if dropped := tail.total - int64(len(tail.bytes())); dropped > 0 {
		if _, err := fmt.Fprintf(f, "\n[hare: %d bytes are missing here: outputs are kept up to %d bytes]\n", dropped,
			limit); err != nil {
			return err
		}
	}
	_, err = f.Write(tail.bytes())
	return err
}

// ring keeps the last bytes that were written to it.
type ring struct {
	kept  []byte
	at    int // where the next byte goes
	total int64
}

func newRing(size int) *ring { return &ring{kept: make([]byte, size)} }

func (r *ring) Write(b []byte) (int, error) {
	n := len(b)
	r.total += int64(n)
	if n > len(r.kept) {
		b = b[n-len(r.kept):]
	}
	for len(b) > 0 {
		k := copy(r.kept[r.at:], b)
		r.at = (r.at + k) % len(r.kept)
		b = b[k:]
	}
	return n, nil
}

// bytes returns the last bytes in order.
func (r *ring) bytes() []byte {
	if r.total < int64(len(r.kept)) {
		return r.kept[:r.at]
	}
	return append(append([]byte{}, r.kept[r.at:]...), r.kept[:r.at]...)
}
