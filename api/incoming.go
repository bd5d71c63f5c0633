package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/hare-sched/hare/serve/admission"
)

const (
	// slowAfter is when an upload counts as slow, and maxSlow is how many slow uploads may be under way, half of them
	// of one tenant, or of one address where there are no tenants. A client that sends what it has at once is served
	// however many others do not.
	slowAfter = time.Second
	maxSlow   = 512
	// firstBuffer is the size of the first buffer of a body whose length is not known; a body that is said to be long
	// gets no larger one, since it may never come.
	firstBuffer = 16 << 10
	// zstdWindow is the memory of a decoder of zstd.
	zstdWindow = 8 << 20
)

// incoming is what a request holds of the limits that all requests share, from its first byte to its end: memory, and
// once its body has arrived its places among the calls that compute.
type incoming struct {
	claim *admission.Claim
	// places takes the places once the body has arrived; nil where the request needs none.
	places func() error
	// quota gives the place in the tenant's quota back, and call that among all calls.
	quota, call func()
	arrived     time.Time // when all of the body was there
}

type incomingKey struct{}

func incomingOf(ctx context.Context) *incoming {
	in, _ := ctx.Value(incomingKey{}).(*incoming)
	if in == nil {
		return &incoming{}
	}
	return in
}

// take takes the places of the request, once.
func (in *incoming) take() error {
	places := in.places
	if places == nil {
		return nil
	}
	in.places = nil
	return places()
}

// keep hands the memory and the place in the quota over to the caller, who calls the function when the work has
// ended, which may be after the request.
func (in *incoming) keep() (release func()) {
	claim, quota := in.claim, in.quota
	in.claim, in.quota = nil, nil
	return func() {
		claim.Release()
		if quota != nil {
			quota()
		}
	}
}

func (in *incoming) end() {
	in.keep()()
	if in.call != nil {
		in.call()
	}
}

func (su *slowUploads) take(owner string) bool {
	su.mu.Lock()
	defer su.mu.Unlock()
	if su.all >= maxSlow || su.owners[owner] >= maxSlow/2 {
		return false
	}
	su.all++
	su.owners[owner]++
	return true
}

func (su *slowUploads) release(owner string) {
	su.mu.Lock()
	defer su.mu.Unlock()
	su.all--
	if su.owners[owner]--; su.owners[owner] == 0 {
		delete(su.owners, owner)
	}
}

// upload is a body on its way in.
type upload struct {
	timer   *time.Timer
	looked  chan struct{} // closed when the timer has run
	refused atomic.Bool   // it is slow, and one too many
	release func()        // set before looked is closed
}

// beginUpload refuses the upload, by the read deadline, where it is still under way after some time and too many are.
func (s *server) beginUpload(r *http.Request, control *http.ResponseController) *upload {
	owner := tenantOf(r.Context())
	if owner == "" {
		owner, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	up := &upload{looked: make(chan struct{}), release: func() {}}
	up.timer = time.AfterFunc(slowAfter, func() {
		defer close(up.looked)
		if s.slow.take(owner) {
			up.release = func() { s.slow.release(owner) }
			return
		}
		up.refused.Store(true)
		_ = control.SetReadDeadline(time.Unix(1, 0))
	})
	return up
}

// end must be called once, before the handler returns, since the deadline must not be set after that.
func (up *upload) end() {
	if !up.timer.Stop() {
		<-up.looked
		up.release()
	}
}

// receive reads the body as it was sent, at most limit bytes. Its memory is claimed as it arrives, so that a body
// costs no more than has come of it.
func (s *server) receive(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, err error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	in := incomingOf(r.Context())
	control := http.NewResponseController(w)
	began, grace := time.Now(), min(s.cfg.BodyTime, s.cfg.BodyGrace)
	up := s.beginUpload(r, control)
	defer func() {
		up.end()
		if errors.Is(err, errSlow) || errors.Is(err, errUploads) {
			_ = r.Body.Close() // before the deadline is set again: else net/http waits for the rest
		}
		if err == nil {
			in.arrived = time.Now()
			// net/http goes on reading the connection to notice when the client disconnects.
			_ = control.SetReadDeadline(time.Time{})
		}
	}()
	size := int64(firstBuffer)
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength+1)
	}
	if err := in.claim.Grow(size); err != nil {
		return nil, err
	}
	body = make([]byte, 0, size)
	var until time.Time
	for {
		// Not all connections have deadlines; without deadlines the size is still limited.
		next := began.Add(min(s.cfg.BodyTime, grace+time.Duration(len(body))*time.Second/bodyRate))
		if next.Sub(until) > grace/8 {
			until = next
			_ = control.SetReadDeadline(until)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, &http.MaxBytesError{Limit: limit}
		case err == io.EOF:
			return body, nil
		case up.refused.Load():
			return nil, errUploads
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSlow
		case err != nil:
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is broken or incomplete: " + err.Error()}
		}
		if len(body) == cap(body) {
			if body, err = enlarge(in.claim, body, limit); err != nil {
				return nil, err
			}
		}
	}
}

// enlarge makes room for at least as many bytes again, and claims it.
func enlarge(claim *admission.Claim, text []byte, limit int64) ([]byte, error) {
	size := min(2*int64(cap(text)), limit+1)
	if err := claim.Grow(size - int64(cap(text))); err != nil {
		return nil, err
	}
	return slices.Grow(text, int(size)-len(text)), nil
}

// decompress returns what a body of this coding says, at most limit bytes. Nothing of it is decoded before its size is
// known.
func decompress(claim *admission.Claim, coding string, body []byte, limit int64) (text []byte, err error) {
	var from io.Reader
	switch coding {
	case "":
		return body, nil
	case "gzip":
		if from, err = gzip.NewReader(bytes.NewReader(body)); err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not gzip: " + err.Error()}
		}
	case "zstd":
		if err := claim.Grow(zstdWindow); err != nil {
			return nil, err
		}
		defer func() { _ = claim.Grow(-zstdWindow) }()
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "bad_encoding", "the body is not zstd: " + err.Error()}
		}
		defer z.Close()
		from = z
	}
	size := min(4*int64(len(body))+512, limit+1)
	if err := claim.Grow(size); err != nil {
		return nil, err
	}
	text = make([]byte, 0, size)
	for {
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) > limit:
			return nil, &http.MaxBytesError{Limit: limit}
		case err == io.EOF:
			return text, claim.Grow(int64(-cap(body)))
		case err != nil:
			return nil, &statusError{http.StatusBadRequest, "bad_encoding",
				"the " + coding + " body is broken or incomplete: " + err.Error()}
		}
		if len(text) == cap(text) {
			if text, err = enlarge(claim, text, limit); err != nil {
				return nil, err
			}
		}
	}
}
