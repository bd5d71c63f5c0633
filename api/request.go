package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/wire"
)

// read decodes the document of a request: the instance, and whichever of options,
// method and result takes names.
func (s *server) read(w http.ResponseWriter, r *http.Request, takes string) (*wire.Request, error) {
	return s.readTee(w, r, takes, nil)
}

// readTee is read, and copies the decompressed body to look unless look is nil.
func (s *server) readTee(w http.ResponseWriter, r *http.Request, takes string,
	look io.Writer) (_ *wire.Request, err error) {
	_, end := s.step(r.Context(), "decode")
	defer func() { end(err) }()
	// Not all connections have deadlines; without deadlines the size is still limited.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTime))
	body, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var text io.Reader = body
	if look != nil {
		text = io.TeeReader(body, look)
	}
	req, err := wire.DecodeRequest(text, wire.Limits{MaxBytes: s.bodyLimit(r.Context())})
	if err != nil {
		return nil, err
	}
	// net/http goes on reading the connection to notice when the client disconnects.
	_ = control.SetReadDeadline(time.Time{})
	var faults hare.InvalidErrors
	for _, name := range req.Given {
		again := slices.Contains(replanFields, name)
		switch takes {
		case "options":
		case "method":
			again = name == "expected"
		case "result":
			again = name == "previous" || name == "previous_instance"
		default:
			again = false
		}
		if name != "instance" && name != takes && !again {
			faults = append(faults, &hare.InvalidError{Pointer: "/" + name, Code: "unknown_field",
				Detail: "this path takes instance and " + takes})
		}
	}
	if req.Instance == nil {
		faults = append(faults, missing("instance"))
	}
	if takes == "result" && req.Result == nil {
		faults = append(faults, missing("result"))
	}
	if takes == "result" && req.Replan.Before != nil && req.Replan.Previous == nil {
		faults = append(faults, missing("previous"))
	}
	if takes == "options" {
		faults = append(faults, replanFaults(&req.Replan)...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return req, nil
}

// solveOptions returns the options of a solve, with those of the server where the request gives
// none.
func solveOptions(given *wire.Options) hare.Options {
	return given.Over(hare.Options{Seed: 1, Gap: service.DefaultGap})
}

func missing(field string) *hare.InvalidError {
	return &hare.InvalidError{Code: "missing_field", Detail: `"` + field + `" is missing`}
}

// body checks the content coding of a request and returns its decompressed body. The
// route has checked its media type.
func (s *server) body(w http.ResponseWriter, r *http.Request) (io.ReadCloser, error) {
	limit := s.bodyLimit(r.Context())
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	limited := http.MaxBytesReader(w, r.Body, limit)
	switch strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))) {
	case "", "identity":
		return &bodyReader{limited, "the body"}, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(limited)
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not gzip: " + err.Error()}
		}
		return &bodyReader{z, "the gzip body"}, nil
	case "zstd":
		z, err := zstd.NewReader(limited, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not zstd: " + err.Error()}
		}
		return &bodyReader{z.IOReadCloser(), "the zstd body"}, nil
	}
	return nil, &statusError{http.StatusUnsupportedMediaType, "unsupported_encoding",
		"send the body plain, as gzip or as zstd"}
}

// errSlow is returned where the body took longer than Config.BodyTime to arrive.
var errSlow = errors.New("api: the body took too long")

// bodyReader turns errors of a decoder into refusals, since a body that cannot be
// decoded is the client's fault.
type bodyReader struct {
	io.ReadCloser
	what string
}

func (body *bodyReader) Read(b []byte) (int, error) {
	n, err := body.ReadCloser.Read(b)
	var long *http.MaxBytesError
	if err == nil || err == io.EOF || errors.As(err, &long) {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errSlow
	}
	return n, &statusError{http.StatusBadRequest, "bad_encoding", body.what + " is broken or incomplete: " + err.Error()}
}

// negotiate returns whichever of the media types the client prefers (RFC 9110, 12.5.1),
// and the first for clients without an Accept header. It fails if the client accepts
// none.
func negotiate(r *http.Request, kinds ...string) (string, error) {
	headers := r.Header.Values("Accept")
	if len(headers) == 0 {
		return kinds[0], nil
	}
	best, bestQ := "", 0.0
	for _, part := range strings.Split(strings.Join(headers, ","), ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			q = quality([]string{"q;q=" + text}, "q")
		}
		if i := slices.IndexFunc(kinds, func(kind string) bool { return matches(media, kind) }); i >= 0 && q > bestQ {
			best, bestQ = kinds[i], q
		}
	}
	if best == "" {
		return "", &statusError{http.StatusNotAcceptable, "not_acceptable", "this answers " + strings.Join(kinds, " or ")}
	}
	return best, nil
}

// matches reports whether a media range covers a media type.
func matches(media, kind string) bool {
	group, isRange := strings.CutSuffix(media, "/*")
	return media == kind || media == "*/*" || isRange && strings.HasPrefix(kind, group+"/")
}

// readBody reads a body of at most limit bytes, decompressed, within the time that a body
// may take.
func (s *server) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTime))
	body, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	_ = control.SetReadDeadline(time.Time{})
	return text, nil
}
