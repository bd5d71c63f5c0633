package api

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/klauspost/compress/zstd"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

// read decodes the request document; its fields depend on the route.
func (s *server) read(r *http.Request) (*hare.Request, error) {
	body, err := s.body(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	req, err := hare.DecodeRequest(body, hare.Limits{MaxBytes: s.cfg.MaxBodyBytes})
	switch {
	case err != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, zstd.ErrMagicMismatch)):
		return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the compressed body is broken: " + err.Error()}
	case err != nil:
		return nil, err
	}
	if !req.HasGap {
		req.Options.Gap = service.DefaultGap
	}
	return req, nil
}

// body opens the request's body, decompressed, its media type checked.
func (s *server) body(r *http.Request) (io.ReadCloser, error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		kind, _, err := mime.ParseMediaType(t)
		if err != nil || kind != "application/json" {
			return nil, &statusError{http.StatusUnsupportedMediaType, "unsupported_media_type", "send application/json"}
		}
	}
	if r.ContentLength > s.cfg.MaxBodyBytes {
		return nil, hare.InvalidErrors{{Code: hare.CodeBodyTooLarge}}
	}
	limited := http.MaxBytesReader(nil, r.Body, s.cfg.MaxBodyBytes+1)
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		return limited, nil
	case "gzip":
		z, err := gzip.NewReader(limited)
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not gzip: " + err.Error()}
		}
		return z, nil
	case "zstd":
		z, err := zstd.NewReader(limited, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not zstd: " + err.Error()}
		}
		return z.IOReadCloser(), nil
	}
	return nil, &statusError{http.StatusUnsupportedMediaType, "unsupported_encoding", "send the body plain, as gzip or as zstd"}
}
