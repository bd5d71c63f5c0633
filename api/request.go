package api

import (
	"bytes"
	"crypto/sha256"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// read decodes the document of a request: the instance, and whichever of options,
// method and result takes names. The memory that work on the document takes is claimed.
func (s *server) read(w http.ResponseWriter, r *http.Request, takes string) (*wire.Request, error) {
	req, _, err := s.readDigest(w, r, takes, false)
	return req, err
}

// readDigest is read, and returns the digest of the decompressed body where it is wanted.
func (s *server) readDigest(w http.ResponseWriter, r *http.Request, takes string,
	wanted bool) (_ *wire.Request, digest store.Sum, err error) {
	_, end := s.step(r.Context(), "decode")
	defer func() { end(err) }()
	text, err := s.body(w, r, s.bodyLimit(r.Context()))
	if err != nil {
		return nil, digest, err
	}
	if wanted {
		digest = sha256.Sum256(text)
	}
	req, err := decode(s, r, text, wire.DecodeRequest)
	if err != nil {
		return nil, digest, err
	}
	if err := checkGiven(req, takes); err != nil {
		return nil, digest, err
	}
	return req, digest, s.claimWork(r, len(text), admission.Footprint(req.Instance))
}

// decode decodes the text of a body, whose memory it claims. What a document of a few bytes becomes is claimed by the
// decoder.
func decode[T any](s *server, r *http.Request, text []byte, how func(io.Reader, wire.Limits) (T, error)) (T, error) {
	claim := admission.ClaimOf(r.Context())
	if err := claim.Grow(admission.DecodeFactor * int64(len(text))); err != nil {
		var none T
		return none, err
	}
	return how(bytes.NewReader(text), wire.Limits{MaxBytes: s.bodyLimit(r.Context()), Claim: claim.Grow})
}

// claimWork claims, once a document of size bytes is decoded, what the work on it takes until the call has ended.
func (s *server) claimWork(r *http.Request, size int, work int64) error {
	return admission.ClaimOf(r.Context()).Resize(max(work, admission.DecodeFactor/2*int64(size)))
}

// checkGiven refuses fields that the path does not take, and misses those that it needs.
func checkGiven(req *wire.Request, takes string) error {
	var faults hare.InvalidErrors
	for _, name := range req.Given {
		again := slices.Contains(replanFields, name)
		switch takes {
		case "options":
			again = again || name == "name" || name == "labels"
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
		return faults
	}
	return nil
}

// solveOptions returns the options of a solve, with those of the server where the request gives
// none.
func solveOptions(given *wire.Options) hare.Options {
	return given.Over(hare.Options{Seed: 1, Gap: service.DefaultGap})
}

func missing(field string) *hare.InvalidError {
	return &hare.InvalidError{Code: "missing_field", Detail: `"` + field + `" is missing`}
}

// body checks the content coding of a request and returns its
// decompressed body of at most limit bytes. Once all of it has arrived, the request takes its places among the
// calls that compute.
func (s *server) body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "identity":
		coding = ""
	case "x-gzip":
		coding = "gzip"
	case "", "gzip", "zstd":
	default:
		return nil, &statusError{http.StatusUnsupportedMediaType, "unsupported_encoding",
			"send the body plain, as gzip or as zstd"}
	}
	body, err := s.receive(w, r, limit)
	if err != nil {
		return nil, err
	}
	in := incomingOf(r.Context())
	if err := in.take(); err != nil {
		return nil, err
	}
	return decompress(in.claim, coding, body, limit)
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
// may take, and claims what decoding it takes.
func (s *server) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	text, err := s.body(w, r, limit)
	if err == nil {
		err = admission.ClaimOf(r.Context()).Grow(admission.DecodeFactor * int64(len(text)))
	}
	return text, err
}

// replanFields are the fields of a request that make it a replan of an earlier result.
var replanFields = []string{"previous", "previous_instance", "at_s", "stability"}

// replanFaults returns the faults of a replan with missing fields.
func replanFaults(req *hare.ReplanRequest) (faults hare.InvalidErrors) {
	given := req.Before != nil || req.HasAt || req.HasStability
	switch {
	case req.Previous == nil && given:
		faults = append(faults, &hare.InvalidError{Code: "missing_field",
			Detail: `"previous" is missing: previous_instance, at_s and stability belong to it`})
	case req.Previous != nil && !req.HasAt:
		faults = append(faults, &hare.InvalidError{Code: "missing_field",
			Detail: `"at_s" is missing: give the planning instant on the clock of the previous schedule`})
	}
	return faults
}
