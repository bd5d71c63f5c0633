package clusters

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// historyBatch is how many rows are stored together.
const historyBatch = 1000

// saveHistory stores the minutes that are over. The ledger has them until they are stored, and a server that was
// killed stores them again as its journal has them.
func (c *Cluster) saveHistory() {
	over := c.ledger.UsageOver(historyBatch)
	now := c.parent.cfg.Now()
	if len(over) == 0 || now.Before(c.storeAt) {
		return
	}
	rows := make([]store.HistoryRow, len(over))
	for i := range over {
		data, _ := json.Marshal(&over[i]) // no error: every field can be encoded
		rows[i] = store.HistoryRow{Minute: over[i].Minute, Data: data}
		rows[i].Sum = rows[i].Checksum(c.meta.ID)
	}
	err := c.parent.cfg.Store.SaveHistory(context.WithoutCancel(c.parent.context), c.meta.ID, rows,
		minuteOf(now)-ledger.HistoryMinutes)
	if err != nil {
		c.storeAt = now.Add(time.Minute)
		c.parent.cfg.Logger.Warn("the history of a cluster was not stored: it is tried again", "cluster", c.name,
			"error", err)
		return
	}
	c.ledger.TakeUsage(len(rows))
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// History is what the cluster did from a time until another one, in steps of whole minutes since 1970. Times of which
// nothing is known have no row.
func (c *Cluster) History(ctx context.Context, from, to time.Time, stepMinutes int64) (*clusterdoc.History, error) {
	now := c.parent.cfg.Now()
	if to.After(now) {
		to = now
	}
	first := max(minuteOf(from), minuteOf(now)-ledger.HistoryMinutes)
	last := minuteOf(to.Add(time.Minute - 1)) // the first that is left out
	var recent []ledger.Usage
	err := c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil },
		after: func(l *ledger.Ledger) { recent = l.Usage(now.UnixMicro()) }})
	if err != nil {
		return nil, err
	}
	// A row of many minutes may have begun before.
	rows, err := c.parent.cfg.Store.History(ctx, c.meta.ID, first-ledger.LongestRow, min(last, recent[0].Minute))
	if err != nil {
		return nil, err
	}
	t := thinner{first: first, last: last, step: stepMinutes, doc: &clusterdoc.History{StepS: stepMinutes * 60,
		Rows: []*clusterdoc.HistoryRow{}}}
	for i := range rows {
		var u ledger.Usage
		if rows[i].Sum != rows[i].Checksum(c.meta.ID) {
			return nil, &store.CorruptError{Session: c.meta.ID, What: "a row of its history"}
		}
		if err := json.Unmarshal(rows[i].Data, &u); err != nil {
			return nil, &store.CorruptError{Session: c.meta.ID, What: "a row of its history: " + err.Error()}
		}
		t.add(&u)
	}
	for i := range recent {
		t.add(&recent[i])
	}
	t.end()
	return t.doc, nil
}

// thinner adds up minutes, in order, to rows of several.
type thinner struct {
	first, last, step int64
	doc               *clusterdoc.History
	open              *ledger.Usage // of the row that goes on; nil: none
}

// add adds the part of u that lies between first and last.
func (t *thinner) add(u *ledger.Usage) {
	for at := max(u.Minute, t.first); at < min(u.Minute+u.Minutes, t.last); {
		row := at / t.step * t.step
		n := min(row+t.step, u.Minute+u.Minutes, t.last) - at
		if t.open == nil || t.open.Minute != row {
			t.end()
			t.open = &ledger.Usage{Minute: row, UsedUs: map[string]int64{}, InServiceUs: map[string]int64{}}
		}
		t.open.Add(u, n)
		at += n
	}
}

// end writes the row that goes on.
func (t *thinner) end() {
	x := t.open
	if t.open = nil; x == nil || x.TimeUs == 0 {
		return
	}
	mean := func(sum int64) float64 { return math.Round(float64(sum)/float64(x.TimeUs)*1e6) / 1e6 }
	means := func(sums map[string]int64) map[string]float64 {
		all := map[string]float64{}
		for gpuType, sum := range sums {
			all[gpuType] = mean(sum)
		}
		return all
	}
	r := &clusterdoc.HistoryRow{At: time.Unix(x.Minute*60, 0).UTC(), Waiting: mean(x.WaitingUs),
		Running: mean(x.RunningUs), WaitingGPUs: mean(x.WaitingGPUsUs), Used: means(x.UsedUs),
		InService: means(x.InServiceUs), Started: x.Started, Ended: x.Ended}
	if x.Started > 0 {
		wait := math.Round(float64(x.WaitUs)/float64(x.Started)) / 1e6
		r.WaitS = &wait
	}
	t.doc.Rows = append(t.doc.Rows, r)
}
