package main

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// TestServeWithPlansSurvivesKills kills hare serve with SIGKILL while its planners make
// plans for a session, take them and write them. Which plan an event meets depends on time,
// so that the answers are compared with the log: no answer is lost or changed, and the log
// with its plans gives the same decisions again, also after backup and restore, and up to
// the damage after repair.
func TestServeWithPlansSurvivesKills(t *testing.T) {
	kills := 7
	if *soak {
		kills = 100
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(5, 301))
	machines, cluster := newSimulatedCluster(7)
	p := &player{machines: machines}
	args := []string{"--data-dir", dir, "--snapshot-every", "250", "--planners", "2"}
	for i := range kills {
		s := serve(t, -1, args...)
		if i == 0 {
			p.id = newSession(t, s.url, "rolling", cluster)
			p.play(t, s, 300)
		}
		time.AfterFunc(time.Duration(rng.Int64N(int64(250*time.Millisecond))), func() { _ = s.cmd.Process.Kill() })
		if rng.IntN(2) == 0 {
			p.ask(t, s.url)
		}
		p.play(t, s, 1<<62)
		if err := s.end(t); err == nil {
			t.Fatalf("it ended by itself\n%s", s.stderr())
		}
	}
	s := serve(t, -1, args...)
	p.play(t, s, p.total+300)
	p.ask(t, s.url)
	log := p.checkLog(t, s)
	// The plan is the same from the server and from the log.
	far := expect(t, exitDone, "plan made at", "online", "plan", "--server", s.url, "--session", p.id)
	if near := expect(t, exitDone, "plan made at", "online", "plan", file(t, "log", string(log))); near != far {
		t.Errorf("the server's plan is\n%sand the log's is\n%s", far, near)
	}
	none := strings.Repeat("a", 26)
	expect(t, exitUsage, "no session of that id", "online", "plan", "--server", s.url, "--session", none)
	backup, restored, repaired := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored"),
		filepath.Join(t.TempDir(), "repaired")
	expect(t, exitDone, "1 session, ", "backup", dir, backup)
	s.stop(t)
	expect(t, exitDone, "1 session, ", "restore", backup, restored)
	s = serve(t, -1, "--data-dir", restored)
	if again := p.checkLog(t, s); !bytes.Equal(again, log) {
		t.Errorf("a log of %d bytes has %d after backup and restore", len(log), len(again))
	}
	p.play(t, s, p.total+100)
	p.checkLog(t, s)
	s.stop(t)

	alter(t, dir, "UPDATE log SET data = zeroblob(length(data)) WHERE key = (SELECT max(key) FROM log)")
	alter(t, dir, "DELETE FROM snapshot WHERE seq > 100")
	expect(t, exitNo, "1 session, 0 solves; losses in 1 session", "repair", dir, repaired)
	s = serve(t, -1, "--data-dir", repaired)
	_, kept := get(t, s.url+"/v1/sessions/"+p.id+"/log")
	_, before, _ := bytes.Cut(log, []byte("\n"))
	_, after, _ := bytes.Cut(kept, []byte("\n"))
	if !bytes.HasPrefix(before, after) || !bytes.Contains(after, []byte(`"plan":{`)) {
		t.Errorf("%d bytes of %d were kept, and are no begin of them, or have no plans", len(after), len(before))
	}
	expect(t, exitDone, "decisions identical", "online", "replay", file(t, "kept", string(kept)))
	s.stop(t)
	t.Logf("%d kills; %d events, %d sent again; %d plans, %d bytes of log", kills, p.total, p.again,
		bytes.Count(log, []byte(`"plan":{`)), len(log))
}

// checkLog checks that the log of the session has every answer that was given, in order,
// and plans, and that its decisions are made again. It returns the log.
func (p *player) checkLog(t *testing.T, s *served) []byte {
	t.Helper()
	code, log := get(t, s.url+"/v1/sessions/"+p.id+"/log")
	_, records, _ := bytes.Cut(log, []byte("\n"))
	lines := bytes.SplitAfter(records, []byte("\n"))
	lines = lines[:len(lines)-1]
	if code != http.StatusOK || len(lines) != len(p.given) {
		t.Fatalf("%d: the log has %d events, %d were answered", code, len(lines), len(p.given))
	}
	plans := 0
	for i, line := range lines {
		rec, err := wire.DecodeRecord(bytes.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if rec.Plan != nil {
			plans++
		}
		answer := append(wire.AppendAnswer(nil, hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}), '\n')
		if !bytes.Equal(answer, p.given[i]) {
			t.Fatalf("event %d was answered with\n%sand is recorded with\n%s", rec.Event.Seq, p.given[i], answer)
		}
	}
	if plans == 0 {
		t.Error("the log has no plans")
	}
	expect(t, exitDone, "decisions identical", "online", "replay", file(t, "log", string(log)))
	return log
}
