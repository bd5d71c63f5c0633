package sessions_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
	"github.com/hare-sched/hare/wire"
)

// crashDir is the environment variable that makes this test program the server that
// TestKill kills.
const crashDir = "HARE_TEST_CRASH_DIR"

// crashPlans is the environment variable that gives the sessions of that server plans.
const crashPlans = "HARE_TEST_CRASH_PLANS"

// openCrashed opens the sessions of that server.
func openCrashed(t testing.TB, dir string, plans bool) *sessions.Sessions {
	t.Helper()
	if !plans {
		return openDir(t, dir)
	}
	return open(t, plannedConfig(openSQLite(t, dir), &hands{
		answer: func(ctx context.Context, q *planQuestion) ([]byte, error) {
			select { // plans of up to 16 KiB, each made in up to half a millisecond
			case <-time.After(time.Duration(q.hash & (1<<19 - 1))):
			case <-ctx.Done():
			}
			return fmt.Appendf(q.text()[:len(q.text())-1], `,"rows":"%0*d"}`, q.hash&(1<<14-1), 0), ctx.Err()
		}}))
}

// TestCrashChild is the server that TestKill kills. Events come in at stdin. Answers go
// out at descriptor 3, one a line, after the number of the last durable event.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("only as a child of TestKill")
	}
	ctx := context.Background()
	out := bufio.NewWriter(os.NewFile(3, "answers"))
	s := openCrashed(t, dir, os.Getenv(crashPlans) != "")
	infos, err := s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	var e *sessions.Session
	if len(infos) > 0 {
		if e, err = s.Session(ctx, "", infos[0].ID); err != nil {
			t.Fatal(err)
		}
	} else {
		e = create(t, s)
	}
	fmt.Fprintln(out, e.Info().Last)
	out.Flush()
	promises := make(chan *sessions.Promise, 500)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range promises {
			a, err := p.Wait(ctx)
			if err != nil {
				fmt.Fprintln(out, "error", err)
			} else {
				fmt.Fprintln(out, line(a))
			}
			if len(promises) == 0 {
				out.Flush()
			}
		}
		out.Flush()
	}()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		ev, err := wire.DecodeEvent(in.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Submit(ctx, ev)
		if err != nil {
			t.Fatal(err)
		}
		promises <- p
	}
	close(promises)
	<-done
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKill kills a server again and again in the middle of a stream. The client sends
// every event again that got no answer. Every answer, and the whole log at the end, must
// be those of a run without kills.
func TestKill(t *testing.T) {
	kills := 20
	switch {
	case *soak:
		kills = 300
	case testing.Short():
		kills = 6
	}
	dir := t.TempDir()
	events := script(11, kills*2500)
	want := undisturbed(t, events)
	rng := rand.New(rand.NewPCG(11, 4))
	answered, killed := 0, 0
	for answered < len(events) {
		after := time.Duration(-1)
		if killed < kills {
			after = time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
			killed++
		}
		answered = serveOnce(t, dir, events, answered, after, func(answer string) bool {
			same := answered < len(want) && answer == want[answered]
			answered++
			return same
		})
	}
	t.Logf("%d kills, %d events", killed, answered)
	if killed < kills {
		t.Errorf("the events lasted for %d kills only", killed)
	}
	s := openDir(t, dir)
	defer s.Close()
	infos, _ := s.List(context.Background(), "")
	e, err := s.Session(context.Background(), "", infos[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := logOf(e); err != nil || !slices.Equal(got, want) {
		t.Fatalf("the log of %d events is not that of an undisturbed run: %v", len(got), err)
	}
}

// serveOnce runs a server, kills it some time after its first line (never, if the time is
// negative), and returns how many events have an answer. A server that is killed gets half of
// the events that are left, so that a fast one leaves some for the next kills.
func serveOnce(t *testing.T, dir string, events []hare.Event, answered int, after time.Duration,
	take func(answer string) bool, env ...string) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(exe, "-test.run=^TestCrashChild$")
	cmd.Env = append(append(os.Environ(), crashDir+"="+dir), env...)
	cmd.ExtraFiles = []*os.File{w}
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stdout
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	first, err := lines.ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the server did not start: %v\n%s", err, &stdout)
	}
	last, err := strconv.Atoi(first[:len(first)-1])
	if err != nil || last < answered {
		t.Fatalf("the server has %s events of %d that were answered", first, answered)
	}
	if after >= 0 {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	sent, send := make(chan struct{}), events[answered:]
	if after >= 0 {
		send = send[:(len(send)+1)/2]
	}
	go func() { // from the first that was not answered, whatever the server has
		defer close(sent)
		b := bufio.NewWriter(in)
		for _, ev := range send {
			b.Write(append(wire.AppendEvent(nil, ev), '\n'))
		}
		b.Flush()
		if after < 0 {
			in.Close()
		}
	}()
	for {
		text, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // a line that is cut was not answered
		} else if err != nil {
			t.Fatal(err)
		}
		if text = text[:len(text)-1]; !take(text) {
			t.Fatalf("event %d: got %s", answered+1, text)
		}
		answered++
	}
	<-sent
	if err := cmd.Wait(); after < 0 && err != nil {
		t.Fatalf("%v\n%s", err, &stdout)
	}
	return answered
}

// TestKillWithPlans kills a server while plans are made, recorded and taken. Every answer
// must be that of the log at the end, which must have all events in order, and from whose
// events and plans the same decisions must follow.
func TestKillWithPlans(t *testing.T) {
	kills := 12
	switch {
	case *soak:
		kills = 100
	case testing.Short():
		kills = 4
	}
	dir := t.TempDir()
	events := script(12, kills*1500)
	rng := rand.New(rand.NewPCG(12, 4))
	var answers []string
	killed := 0
	for len(answers) < len(events) {
		after := time.Duration(-1)
		if killed < kills {
			after = time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
			killed++
		}
		serveOnce(t, dir, events, len(answers), after, func(answer string) bool {
			answers = append(answers, answer)
			return strings.HasPrefix(answer, fmt.Sprintf(`{"seq":%d,`, len(answers)))
		}, crashPlans+"=1")
	}
	if killed < kills {
		t.Errorf("the events lasted for %d kills only", killed)
	}
	s := openCrashed(t, dir, true)
	defer closeAll(t, s)
	infos, _ := s.List(context.Background(), "")
	e, err := s.Session(context.Background(), "", infos[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for rec, err := range e.Log(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got := line(hare.Answer{Seq: rec.Event.Seq, Decisions: rec.Decisions}); i >= len(answers) || got != answers[i] ||
			string(wire.AppendEvent(nil, rec.Event)) != string(wire.AppendEvent(nil, events[i])) {
			t.Fatalf("event %d is not that of its answer", i+1)
		}
		i++
	}
	plans := replayed(t, e)
	t.Logf("%d kills, %d events, %d plans", killed, i, plans)
	if i != len(events) || plans < kills {
		t.Errorf("%d of %d events, %d plans", i, len(events), plans)
	}
}

// failing is a store whose disk is full at times.
type failing struct {
	store.SessionStore
	fail func() bool
	// late means that the rows were written although the call failed, as after a failed
	// fsync.
	late bool
}

func (f *failing) Append(ctx context.Context, rows []store.Row) error {
	if !f.fail() {
		return f.SessionStore.Append(ctx, rows)
	}
	if f.late {
		if err := f.SessionStore.Append(ctx, rows); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no space", store.ErrStorage)
}

func (f *failing) SaveSnapshot(ctx context.Context, s store.Snapshot) error {
	if s.Seq > 0 && f.fail() {
		return fmt.Errorf("%w: no space", store.ErrStorage)
	}
	return f.SessionStore.SaveSnapshot(ctx, s)
}

// TestFullDiskRefusesAndRecovers checks that no event without a record gets an answer,
// and that events are recorded and answered once the disk has space again.
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	ctx := context.Background()
	seeds := uint64(20)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 5)) // of the committer alone, while events go in
		db, err := sqlite.Open(ctx, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, sessionsConfig(&failing{SessionStore: db, fail: func() bool { return rng.IntN(3) == 0 },
			late: seed%2 == 1}))
		e := create(t, s)
		events := script(seed, 400)
		want := undisturbed(t, events)
		answered, failures := 0, 0
		for answered < len(events) {
			to := min(len(events), answered+40)
			got, err := send(ctx, e, events[answered:to])
			if !slices.Equal(got, want[answered:answered+len(got)]) {
				t.Fatalf("seed %d: wrong answers behind %d", seed, answered)
			}
			answered += len(got)
			switch {
			case errors.Is(err, store.ErrStorage):
				failures++
				if seen, err := logOf(e); err != nil || len(seen) < answered || !slices.Equal(seen, want[:len(seen)]) {
					t.Fatalf("seed %d: the log cannot be read then: %d of %d, %v", seed, len(seen), answered, err)
				}
				time.Sleep(time.Millisecond)
			case err != nil:
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if failures == 0 {
			t.Errorf("seed %d: nothing failed", seed)
		}
		if got, err := logOf(e); err != nil || !slices.Equal(got, want) {
			t.Errorf("seed %d: log: %v", seed, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
