package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// helperDir is a directory in which a helper keeps a session of one GPU.
type helperDir struct {
	t      *testing.T
	dir    string
	policy online.Durable
	state  sessiondoc.HelperState
	log    []byte
}

func newHelperDir(t *testing.T) *helperDir {
	h := &helperDir{t: t, dir: t.TempDir()}
	h.begin("session-1.ndjson")
	return h
}

// begin begins another session.
func (h *helperDir) begin(log string) {
	h.t.Helper()
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}}}}
	var err error
	if h.policy, err = registry.OpenSession("fifo", cluster, nil); err != nil {
		h.t.Fatal(err)
	}
	h.log = append(wire.AppendLogHeader(nil, &wire.LogHeader{Policy: "fifo", Clock: "events", Cluster: *cluster}), '\n')
	h.state = sessiondoc.HelperState{Form: sessiondoc.HelperForm, Helper: "ray", Log: log, EveryS: 5,
		Origin: time.Unix(1000, 0).UTC(), Jobs: map[string]sessiondoc.HelperJob{}}
}

// loop lets a job arrive, at a time of the helper's clock, and writes what the helper writes.
func (h *helperDir) loop(job string, written time.Time) {
	h.t.Helper()
	h.state.Seq++
	e := hare.Event{Seq: h.state.Seq, AtUs: h.state.Seq * 1e6, Type: hare.EventJobArrived, Job: job,
		Arrived: &hare.Job{ID: job, WeightMicro: 1e6, Rounds: 1, Tasks: 1, On: []hare.Profile{{Type: "T4", ComputeUs: 5e6}}}}
	decisions, err := h.policy.Step(e.AtUs, []hare.Event{e})
	if err != nil {
		h.t.Fatal(err)
	}
	h.log = append(wire.AppendRecord(h.log, wire.Record{Event: e, Decisions: decisions}), '\n')
	h.state.AtUs, h.state.Written, h.state.State = e.AtUs, written, h.policy.AppendSnapshot(nil)
	h.state.Jobs[job] = sessiondoc.HelperJob{Name: "name of " + job, Next: job == "next"}
	h.write(h.state.Log, h.log)
	text, err := json.Marshal(&h.state)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(sessiondoc.HelperFile, text)
}

// write replaces a file as a whole.
func (h *helperDir) write(name string, text []byte) {
	h.t.Helper()
	part := filepath.Join(h.dir, "part")
	if err := errors.Join(os.WriteFile(part, text, 0o600), os.Rename(part, filepath.Join(h.dir, name))); err != nil {
		h.t.Fatal(err)
	}
}

// followed lets new sessions follow the directory, whose first look is over when they are there.
func (h *helperDir) followed(now time.Time) (*sessions.Sessions, *sessions.Session) {
	h.t.Helper()
	cfg := sessionsConfig(store.NewMemory())
	cfg.Now = func() time.Time { return now }
	cfg.New, cfg.Restore = nil, nil
	ss := open(h.t, cfg)
	ctx, stop := context.WithCancel(h.t.Context())
	h.t.Cleanup(func() { stop(); _ = ss.Close() })
	ss.Follow(ctx, "ray", "ray", h.dir)
	s, err := ss.Session(ctx, "", "ray")
	if err != nil {
		h.t.Fatal(err)
	}
	return ss, s
}

func records(s *sessions.Session, after int64) (n int, err error) {
	for _, err = range s.Log(context.Background(), after) {
		if err == nil {
			n++
		}
	}
	return n, err
}

// TestFollowedDirectory reads what a helper keeps, also while the helper is writing, and where it has stopped.
func TestFollowedDirectory(t *testing.T) {
	ctx, now := t.Context(), time.Unix(2000, 0)
	h := newHelperDir(t)
	h.loop("one", now)
	h.loop("next", now)
	h.write(h.state.Log, append(h.log, `{"event":{"seq":3,"at_s"`...)) // the helper is in the middle of a line
	ss, s := h.followed(now.Add(14 * time.Second))
	info := s.Info()
	if info.Last != 2 || info.Followed == nil || !info.Followed.At.Equal(now) || info.Followed.Stale ||
		info.Followed.Fault != "" || !info.Created.Equal(h.state.Origin) || len(info.Config.Cluster.Nodes) != 1 {
		t.Errorf("%+v %+v", info, info.Followed)
	}
	o, err := s.Outlook(ctx)
	if err != nil || len(o.Rows) != 2 || o.Row("one").State != "running" || o.Told["next"].Name != "name of next" ||
		o.Row("next").State != "waiting" || o.NowUs != 1014e6 {
		t.Errorf("%+v %v", o, err)
	}
	if n, err := records(s, 0); n != 2 || err != nil {
		t.Error(n, err)
	}
	if n, err := records(s, 1); n != 1 || err != nil {
		t.Error(n, err)
	}
	if _, found, err := s.Explain(ctx, "one"); !found || err != nil {
		t.Error(found, err)
	}
	var refused *sessions.FollowedError
	if _, err := s.Submit(ctx, hare.Event{Seq: 3, Type: hare.EventTick}); !errors.As(err, &refused) {
		t.Error(err)
	}
	if err := ss.Delete(ctx, "", "ray"); !errors.Is(err, store.ErrNoSession) {
		t.Error(err)
	}
	if all, err := ss.List(ctx, "another tenant"); len(all) != 1 || err != nil {
		t.Error(all, err)
	}
	if _, s = h.followed(now.Add(16 * time.Second)); !s.Info().Followed.Stale {
		t.Error("not stale after 16 s of a helper with loops of 5 s")
	}

	// A state that cannot be read, and one of another helper, leave the one before.
	_, s = h.followed(now)
	for text, want := range map[string]string{
		"{": "is not the state",
		`{"hare":"helper-session/v1","helper":"kube","log":"x"}`: "is that of hare kube",
	} {
		h.write(sessiondoc.HelperFile, []byte(text))
		for i := 0; !strings.Contains(s.Info().Followed.Fault, want); i++ {
			if i == 5000 {
				t.Fatal(s.Info().Followed)
			}
			time.Sleep(time.Millisecond) // the server looks every 100 ms
		}
	}
	if o, err := s.Outlook(ctx); err != nil || len(o.Rows) != 2 {
		t.Error(o, err)
	}
	// A log that can be read again is, although the helper has written nothing.
	log, away := filepath.Join(h.dir, h.state.Log), filepath.Join(h.dir, "away")
	if err := os.Rename(log, away); err != nil {
		t.Fatal(err)
	}
	h.rewrite()
	for _, want := range []string{"no such file", ""} {
		for i := 0; !strings.Contains(s.Info().Followed.Fault, want) || want == "" && s.Info().Followed.Fault != ""; i++ {
			if i == 5000 {
				t.Fatal(s.Info().Followed)
			}
			time.Sleep(time.Millisecond)
		}
		_ = os.Rename(away, log)
	}
	// Of the helper's next session, another one is there.
	h.begin("session-2.ndjson")
	h.loop("other", now)
	for _, err = range s.Decisions(ctx, 2) {
	}
	if !errors.Is(err, store.ErrNoSession) {
		t.Error(err)
	}
}

// TestFollowedDamage checks what is said of directories that cannot be read.
func TestFollowedDamage(t *testing.T) {
	now := time.Unix(2000, 0)
	for name, c := range map[string]struct {
		damage func(h *helperDir)
		want   string
	}{
		"no state": {func(h *helperDir) { _ = os.Remove(filepath.Join(h.dir, sessiondoc.HelperFile)) }, "is not there"},
		"on a server": {func(h *helperDir) {
			h.write("state.json", nil)
			_ = os.Remove(filepath.Join(h.dir, sessiondoc.HelperFile))
		}, "--server"},
		"no log":          {func(h *helperDir) { _ = os.Remove(filepath.Join(h.dir, h.state.Log)) }, "no such file"},
		"empty log":       {func(h *helperDir) { h.write(h.state.Log, nil) }, "no first line"},
		"log of others":   {func(h *helperDir) { h.write(h.state.Log, []byte("{}\n")) }, "is missing"},
		"log is a folder": {func(h *helperDir) { h.state.Log = ".."; h.rewrite() }, "is not the state"},
		"state is a folder": {func(h *helperDir) {
			_ = os.Remove(filepath.Join(h.dir, sessiondoc.HelperFile))
			_ = os.Mkdir(filepath.Join(h.dir, sessiondoc.HelperFile), 0o700)
		}, "is not a regular file"},
		"log elsewhere": {func(h *helperDir) { h.state.Log = "../x"; h.rewrite() }, "is not the state"},
		"snapshot":      {func(h *helperDir) { h.state.State = []byte("x"); h.rewrite() }, "cannot be read"},
		"a file in its place": {func(h *helperDir) {
			_ = os.RemoveAll(h.dir)
			_ = os.WriteFile(h.dir, nil, 0o600)
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHelperDir(t)
			h.loop("one", now)
			c.damage(h)
			_, s := h.followed(now)
			var unread *sessions.UnreadError
			if _, err := s.Outlook(t.Context()); !errors.As(err, &unread) || !strings.Contains(err.Error(), c.want) ||
				s.Info().Followed.Fault != err.Error() {
				t.Errorf("%v %+v", err, s.Info().Followed)
			}
		})
	}
	// The state is enough for lists, and what is damaged in the log says so.
	for name, damage := range map[string]func(h *helperDir) []byte{
		"cut":      func(h *helperDir) []byte { return h.log[:len(h.log)-9] },
		"not JSON": func(h *helperDir) []byte { h.log[len(h.log)-9] = '}'; return h.log },
		"twice": func(h *helperDir) []byte {
			return []byte(strings.ReplaceAll(string(h.log), `"seq":2`, `"seq":1`))
		},
	} {
		h := newHelperDir(t)
		h.loop("one", now)
		h.loop("two", now)
		h.write(h.state.Log, damage(h))
		_, s := h.followed(now)
		var corrupt *store.CorruptError
		if n, err := records(s, 0); n != 1 || !errors.As(err, &corrupt) || corrupt.Seq != 2 {
			t.Errorf("%s: %d records, %v", name, n, err)
		}
		if o, err := s.Outlook(t.Context()); err != nil || len(o.Rows) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rewrite writes the state as it is.
func (h *helperDir) rewrite() {
	text, err := json.Marshal(&h.state)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(sessiondoc.HelperFile, text)
}
