package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/hare-sched/hare/serve/changes"
)

// followChanges streams changes as server-sent events, which document shows: the event reset where all is to be read,
// and the event changes.
func (s *server) followChanges(w http.ResponseWriter, r *http.Request, document func(*changes.Change) any,
	items func(ctx context.Context, after int64) iter.Seq2[changes.Change, error]) error {
	kind, err := negotiate(r, kindEvents)
	if err != nil {
		return err
	}
	after, err := resumeAfter(r)
	if err != nil {
		return err
	}
	if after == 0 {
		after = -1 // a reader that has nothing reads everything, from the first event on
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	return follow(s, w, r, true, feed[changes.Change]{
		of: "changes", retry: reconnect,
		items: func(ctx context.Context) iter.Seq2[changes.Change, error] { return items(ctx, after) },
		write: func(l *liveWriter, c changes.Change) {
			name, data := "changes", document(&c)
			if c.Reset {
				name, data = "reset", struct {
					Seq int64 `json:"seq"`
				}{c.Seq}
			}
			text, _ := json.Marshal(data) // no error: every field can be encoded
			l.item(c.Seq, name, func(b []byte) []byte { return append(b, text...) })
		},
		code: func(err error) string {
			for _, p := range []*statusError{clusterProblem(err), sessionProblem(err)} {
				if p != nil {
					return p.code
				}
			}
			s.cfg.Logger.Error("stream broken off", "request_id", requestID(r.Context()), "error", err)
			return "internal"
		},
	})
}

// namesOf are the names of the things of a kind that are there, or that are gone.
func namesOf(c *changes.Change, kind changes.Kind, gone bool) []string {
	names := []string{}
	for _, t := range c.Things {
		if t.Kind == kind && t.Gone == gone {
			names = append(names, t.Name)
		}
	}
	return names
}

func planChanged(c *changes.Change) bool {
	for _, t := range c.Things {
		if t.Kind == changes.Plan {
			return true
		}
	}
	return false
}
