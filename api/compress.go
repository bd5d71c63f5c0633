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

// minCompressed is the least size, in bytes, of an answer that is compressed.
const minCompressed = 1 << 10

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

// compressWriter compresses an answer of at least minCompressed bytes.
type compressWriter struct {
	http.ResponseWriter
	coding   string
	status   int
	buffered []byte // the answer so far, while it is shorter than minCompressed
	z        encoder
}

func (cw *compressWriter) Unwrap() http.ResponseWriter { return cw.ResponseWriter }

func (cw *compressWriter) started() bool { return cw.status != 0 }

func (cw *compressWriter) WriteHeader(status int) {
	if cw.status == 0 {
		cw.status = status
	}
}

func (cw *compressWriter) Write(b []byte) (int, error) {
	cw.WriteHeader(http.StatusOK)
	if cw.z != nil {
		return cw.z.Write(b)
	}
	if len(cw.buffered)+len(b) < minCompressed {
		cw.buffered = append(cw.buffered, b...)
		return len(b), nil
	}
	cw.Header().Set("Content-Encoding", cw.coding)
	cw.Header().Del("Content-Length")
	cw.ResponseWriter.WriteHeader(cw.status)
	cw.z = encoders[cw.coding].Get().(encoder)
	cw.z.Reset(cw.ResponseWriter)
	if _, err := cw.z.Write(cw.buffered); err != nil {
		return 0, err
	}
	return cw.z.Write(b)
}

// finish sends a short answer as it is, or ends the compressed answer.
func (cw *compressWriter) finish() {
	switch {
	case cw.z != nil:
		// An error here means that the client is gone.
		_ = cw.z.Close()
		cw.z.Reset(nil)
		encoders[cw.coding].Put(cw.z)
	case cw.status != 0:
		cw.ResponseWriter.WriteHeader(cw.status)
		_, _ = cw.ResponseWriter.Write(cw.buffered)
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

// contentCoding returns whichever of zstd and gzip the client prefers, zstd where both
// are equal, and "" where the client accepts neither.
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
