package clusters_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// oldJournals writes journals as a version did that gave no secrets to agents.
type oldJournals struct {
	store.SessionStore
	last map[string]store.Row // by journal, as it was written
}

var secretSum = regexp.MustCompile(`,"secret_sha256":"[0-9a-f]{64}"`)

func (o *oldJournals) Append(ctx context.Context, rows []store.Row) error {
	for i := range rows {
		r := rows[i]
		if before, ok := o.last[r.Session]; ok {
			r.Prev = before.Sum
		}
		r.Data = secretSum.ReplaceAll(r.Data, nil)
		r.Sum = r.Checksum()
		if err := o.SessionStore.Append(ctx, []store.Row{r}); err != nil {
			return err
		}
		o.last[r.Session] = r
	}
	return nil
}

// An agent goes on with its secret when the server has started again. One that registered with a version that gave no
// secrets is asked to register again, and keeps its tasks.
func TestSecretsOutliveTheServer(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := newServer(t, time.Minute)
		if old {
			s.journals.SessionStore = &oldJournals{s.journals.SessionStore, map[string]store.Row{}}
		}
		c := s.create("fifo")
		a := &node{r: registration("a", "V100")}
		a.register(t, c)
		id := submit(t, c, &clusterdoc.NewJob{})
		await(t, c, id, clusterdoc.JobRunning, a)
		s.close()
		s.open()
		c = s.cluster()
		err := a.sync(c, 0)
		var conflict *ledger.Conflict
		if known := !errors.As(err, &conflict); !old && err != nil || old && (known || conflict.Code != "unknown_agent") {
			t.Fatalf("old %v: %v", old, err)
		}
		if old {
			a.register(t, c)
			s.journals.SessionStore = s.journals.SessionStore.(*oldJournals).SessionStore
		}
		a.secret += "x"
		if err := a.sync(c, 0); !errors.Is(err, clusters.ErrSecret) {
			t.Errorf("old %v: %v", old, err)
		}
		a.secret = strings.TrimSuffix(a.secret, "x")
		if len(a.running) != 1 {
			t.Fatalf("old %v: the agent has lost its task", old)
		}
		for task := range a.running {
			a.end(task, 0)
		}
		if job := await(t, c, id, clusterdoc.JobSucceeded, a); len(job.Attempts) != 1 {
			t.Errorf("old %v: %d attempts", old, len(job.Attempts))
		}
	}
}
