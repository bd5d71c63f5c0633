package api

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// leastCompressed is the size, in bytes, from which on answers are compressed.
const leastCompressed = 1 << 10

type encoder interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoders holds a pool of encoders for each content coding, since a new encoder
// costs about 100 kB.
var encoders = map[string]*sync.Pool{
	"gzip": {New: func() any { return gzip.NewWriter(nil) }},
	"zstd": {New: func() any {
		// The options are valid, so there is no error.
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		return z
	}},
}

// compressWriter compresses an answer of at least leastCompressed bytes.
type compressWriter struct {
	http.ResponseWriter
	coding string
	status int
	held   []byte // the answer so far, while it is shorter than leastCompressed
	z      encoder
}

func (w *compressWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *compressWriter) started() bool { return w.status != 0 }

func (w *compressWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *compressWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.z != nil {
		return w.z.Write(b)
	}
	if len(w.held)+len(b) < leastCompressed {
		w.held = append(w.held, b...)
		return len(b), nil
	}
	w.Header().Set("Content-Encoding", w.coding)
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(w.status)
	w.z = encoders[w.coding].Get().(encoder)
	w.z.Reset(w.ResponseWriter)
	if _, err := w.z.Write(w.held); err != nil {
		return 0, err
	}
	return w.z.Write(b)
}

// finish sends a short answer as it is, or ends the compressed answer.
func (w *compressWriter) finish() {
	switch {
	case w.z != nil:
		// An error here means that the client is gone.
		_ = w.z.Close()
		w.z.Reset(nil)
		encoders[w.coding].Put(w.z)
	case w.status != 0:
		w.ResponseWriter.WriteHeader(w.status)
		_, _ = w.ResponseWriter.Write(w.held)
	}
}

// compress compresses answers with zstd or gzip where the client accepts one of
// these. After a panic the bytes that a compressWriter holds are not sent.
func (s *server) compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		coding := contentCoding(r.Header.Values("Accept-Encoding"))
		if coding == "" || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		out := &compressWriter{ResponseWriter: w, coding: coding}
		next.ServeHTTP(out, r)
		out.finish()
	})
}

// contentCoding returns the one of zstd and gzip that the client prefers, and zstd
// where the client prefers neither; "" where the client accepts neither.
func contentCoding(headers []string) string {
	best, most := "", 0.0
	for _, coding := range []string{"zstd", "gzip"} {
		if q := quality(headers, coding); q > most {
			best, most = coding, q
		}
	}
	return best
}

// quality returns the weight of a coding in Accept-Encoding (RFC 9110, 12.5.3).
func quality(headers []string, coding string) float64 {
	rest := 0.0
	for _, part := range strings.Split(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q="); ok {
			q, _ = strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case coding:
			return q
		case "*":
			rest = q
		}
	}
	return rest
}
