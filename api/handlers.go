package api

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/service"
)

// handle turns a handler that returns errors into one of net/http.
func (s *server) handle(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// negotiate picks JSON or NDJSON.
func negotiate(r *http.Request) (ndjson bool, err error) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return false, nil
	}
	for _, part := range strings.Split(accept, ",") {
		kind, _, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		switch kind {
		case "application/x-ndjson":
			return true, nil
		case "application/json", "application/*", "*/*":
			return false, nil
		}
	}
	return false, &statusError{http.StatusNotAcceptable, "not_acceptable", "this answers application/json and application/x-ndjson"}
}

func (s *server) solve(w http.ResponseWriter, r *http.Request) error {
	ndjson, err := negotiate(r)
	if err != nil {
		return err
	}
	req, err := s.read(r)
	if err != nil {
		return err
	}
	if req.Instance == nil {
		return missing("instance")
	}
	res, err := s.svc.Solve(r.Context(), req.Instance, req.Options)
	if err != nil {
		return err
	}
	s.met.solved(res)
	if ndjson {
		w.Header().Set("Content-Type", "application/x-ndjson")
		return res.EncodeNDJSON(w)
	}
	w.Header().Set("Content-Type", "application/json")
	return res.EncodeJSON(w)
}

func missing(field string) error {
	return &hare.InvalidError{Pointer: "", Code: "missing_field", Detail: `"` + field + `" is missing`}
}

func (s *server) bound(w http.ResponseWriter, r *http.Request) error {
	req, err := s.read(r)
	if err != nil {
		return err
	}
	if req.Instance == nil {
		return missing("instance")
	}
	if req.Method == "" {
		req.Method = hare.MethodPrice
	}
	known := false
	for _, m := range service.Methods() {
		known = known || m == req.Method
	}
	if !known {
		return &hare.InvalidError{Pointer: "/method", Code: "unknown_value", Detail: "must be one of " + strings.Join(service.Methods(), ", ")}
	}
	rel, err := s.svc.Bound(r.Context(), req.Instance, req.Method)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(struct {
		Method      string            `json:"method"`
		Bound       hare.Amount       `json:"bound"`
		Certified   bool              `json:"certified"`
		Certificate *hare.Certificate `json:"certificate,omitempty"`
	}{rel.Method, rel.Bound.RoundDown(), rel.Certified, rel.Certificate})
}

func (s *server) verify(w http.ResponseWriter, r *http.Request) error {
	req, err := s.read(r)
	if err != nil {
		return err
	}
	switch {
	case req.Instance == nil:
		return missing("instance")
	case req.Result == nil:
		return missing("result")
	}
	rep, err := s.svc.Verify(r.Context(), req.Instance, req.Result)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(rep)
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]string{"version": s.svc.Version(), "highs": s.svc.EngineVersion()})
}
