package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// poolOwner is the agent of a pool.
type poolOwner interface {
	// held are the devices that the pool must leave alone: those of other programs, and those that are not well.
	held() []int
	// begin starts a task whose devices the pool has left.
	begin(o *clusterdoc.Order)
	// told takes what the pool says of a parameter server or task, and reports whether there is news for the server.
	told(r clusterdoc.TaskReport) (news bool)
	// adopted takes over a parameter server or task that the process had before the agent was started.
	adopted(r *clusterdoc.TaskReport)
}

// poolOf is the process that computes for relaxed round jobs, as its agent sees it. Only the goroutine of the agent
// uses it, but for events.
type poolOf struct {
	*runners
	owner  poolOwner
	dir    string
	phase  poolPhase
	life   int // counts the processes
	client *pool.Client
	queue  []*pool.Request // for a process that does not listen yet
	has    map[clusterdoc.TaskID]*poolTask
	// late has when what was asked to end must have ended; then the process is killed.
	late map[clusterdoc.TaskID]time.Time
	// holds counts the requests to leave devices to other programs. starts are the orders that wait for the answer.
	holds   int64
	starts  []waiting
	events  chan poolEvent
	changed time.Time // when phase has changed, or the last parameter server or task has ended
	heard   time.Time // when the process has sent something, or was asked whether it is there
	unheard int       // how often look has found no answer to that; 0 where it was not asked
	begun   time.Time
	deaths  int // in a row, soon after the start
	killed  bool
	obeys   time.Duration // poolObeys
}

// poolTask is a parameter server or task that the process was given.
type poolTask struct {
	round int64 // how many rounds a parameter server has said to be saved
	ended bool
}

type poolPhase int

const (
	poolNone poolPhase = iota
	poolStarting
	poolUp
	poolEnding // it was asked to end, or its connection is over
)

// waiting is an order that waits until its devices are free of the pool's workers.
type waiting struct {
	hold  int64
	order *clusterdoc.Order
}

// poolEvent is what happens to a process of the pool.
type poolEvent struct {
	life   int
	client *pool.Client             // it listens now
	told   []*clusterdoc.TaskReport // what it had when the client connected
	deaf   bool                     // it cannot be reached
	event  *pool.Event
	gone   bool // no process is left
	why    string
	again  bool // it may be started now
}

const (
	// poolStart is how long the pool may take to listen, and to leave devices to other programs.
	poolStart = 30 * time.Second
	// poolPause is the most time between two starts of a pool that ends at once.
	poolPause = 10 * time.Second
)

// Variables for tests.
var (
	// poolIdle is how long the pool stays that has nothing to do.
	poolIdle = time.Minute
	// poolObeys is how long the pool may take to answer, and to end what it was asked to end, beyond the grace.
	poolObeys = 15 * time.Second
)

func newPoolOf(r *runners, owner poolOwner) *poolOf {
	return &poolOf{runners: r, owner: owner, dir: filepath.Join(r.cfg.Directory, "pool"),
		has: map[clusterdoc.TaskID]*poolTask{}, late: map[clusterdoc.TaskID]time.Time{}, events: make(chan poolEvent),
		obeys: poolObeys}
}

// tell gives an event to the goroutine of the agent.
func (o *poolOf) tell(e poolEvent) {
	select {
	case o.events <- e:
	case <-o.context.Done():
	}
}

func (o *poolOf) to(phase poolPhase) { o.phase, o.changed = phase, time.Now() }

// send asks the process, which is started where there is none.
func (o *poolOf) send(q *pool.Request) {
	if o.phase == poolUp {
		o.client.Send(q)
		return
	}
	o.queue = append(o.queue, q)
	if o.phase == poolNone {
		o.launch()
	}
}

// start gives the process a parameter server or task.
func (o *poolOf) start(q *pool.Request) {
	o.has[q.Order.TaskID] = &poolTask{}
	o.send(q)
}

// stop asks a parameter server or task to end.
func (o *poolOf) stop(id clusterdoc.TaskID, graceS float64) {
	if o.has[id] != nil {
		o.late[id] = time.Now().Add(time.Duration(graceS*float64(time.Second)) + o.obeys)
		o.send(&pool.Request{Type: pool.Stop, Task: &id, GraceS: graceS})
	}
}

// kill ends a parameter server or task at once.
func (o *poolOf) kill(id clusterdoc.TaskID) {
	if o.has[id] != nil {
		o.late[id] = time.Now().Add(o.obeys)
		o.send(&pool.Request{Type: pool.Kill, Task: &id})
	}
}

// forget says that the server has the end of a parameter server or task.
func (o *poolOf) forget(id clusterdoc.TaskID) {
	if o.has[id] != nil {
		delete(o.has, id)
		o.changed = time.Now()
		if o.phase == poolUp {
			o.client.Send(&pool.Request{Type: pool.Forget, Task: &id})
		}
	}
}

// hold tells the process which devices to leave alone. One that starts learns it when it listens.
func (o *poolOf) hold() {
	o.holds++
	if o.phase == poolUp {
		o.client.Send(&pool.Request{Type: pool.Hold, Number: o.holds, Devices: o.owner.held()})
	}
}

// makeWay has an order wait until its devices are free of the pool's workers; false where there is none.
func (o *poolOf) makeWay(order *clusterdoc.Order) bool {
	if o.phase == poolNone || len(order.Start.Devices) == 0 {
		return false
	}
	o.hold()
	o.starts = append(o.starts, waiting{o.holds, order})
	o.changed = time.Now()
	return true
}

// giveUp drops an order that waits for its devices; false where it does not.
func (o *poolOf) giveUp(id clusterdoc.TaskID) bool {
	n := len(o.starts)
	o.starts = slices.DeleteFunc(o.starts, func(w waiting) bool { return w.order.TaskID == id })
	return len(o.starts) < n
}

// begin starts the tasks that wait for a hold up to a number.
func (o *poolOf) begin(hold int64) {
	var now []waiting
	o.starts = slices.DeleteFunc(o.starts, func(w waiting) bool {
		if w.hold <= hold {
			now = append(now, w)
		}
		return w.hold <= hold
	})
	for _, w := range now {
		o.owner.begin(w.order)
	}
}

// extend lets the process go on until a time.
func (o *poolOf) extend(until time.Duration) {
	if o.phase != poolStarting && o.phase != poolUp || o.killed {
		return // a process that is to end gets no more time
	}
	if runner.Lease(o.dir) <= 0 {
		return // it has none, or is being ended
	}
	if err := runner.SetLease(o.dir, until); err != nil && !errors.Is(err, os.ErrNotExist) {
		o.cfg.Logger.Error("the lease of the pool cannot be written: its tasks will end", "error", err)
	}
}

// take notes what has happened, and says whether there is news for the server.
func (o *poolOf) take(e poolEvent) (news bool) {
	if e.life != o.life {
		if e.client != nil {
			e.client.Close()
		}
		return false
	}
	if e.client != nil || e.event != nil {
		o.heard, o.unheard = time.Now(), 0
	}
	switch {
	case e.again:
		o.launchNow()
	case e.deaf:
		o.killPool("it cannot be reached")
	case e.client != nil && o.client != nil:
		return o.again(e.client, e.told)
	case e.client != nil:
		o.client = e.client
		o.to(poolUp)
		o.hold()
		for _, q := range o.queue {
			o.client.Send(q)
		}
		o.queue = nil
	case e.event != nil && e.event.Type == pool.Held:
		waiting := len(o.starts)
		o.begin(e.event.Number)
		return len(o.starts) < waiting // one may have failed at once
	case e.event != nil && e.event.Report != nil:
		return o.report(e.event.Report)
	case e.gone:
		o.lose(e.why)
		return true
	}
	return false
}

// again goes on over another connection: what was asked over the last one may not have come through.
func (o *poolOf) again(c *pool.Client, told []*clusterdoc.TaskReport) (news bool) {
	o.cfg.Logger.Warn("the agent has connected to the pool again")
	o.client = c
	has := map[clusterdoc.TaskID]bool{}
	for _, r := range told {
		has[r.TaskID] = true
		news = o.report(r) || news
	}
	for _, id := range sortedIDs(o.has) {
		if t := o.has[id]; !has[id] && !t.ended {
			delete(o.late, id)
			news = o.end(clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskLost, Round: t.round,
				Error: "the connection to the pool broke off"}) || news
		}
	}
	for id, by := range o.late {
		if grace := time.Until(by) - o.obeys; grace > 0 {
			c.Send(&pool.Request{Type: pool.Stop, Task: &id, GraceS: grace.Seconds()})
		} else {
			c.Send(&pool.Request{Type: pool.Kill, Task: &id})
		}
	}
	o.hold()
	if o.phase == poolEnding {
		c.Send(&pool.Request{Type: pool.End})
	}
	return news
}

// report takes what the process says of a parameter server or task.
func (o *poolOf) report(r *clusterdoc.TaskReport) (news bool) {
	final := r.State == clusterdoc.TaskEnded || r.State == clusterdoc.TaskLost
	switch {
	case o.has[r.TaskID] == nil: // the server has its end, or does not want it
		if o.client == nil {
			return false // the next process does not know it
		}
		if final {
			o.client.Send(&pool.Request{Type: pool.Forget, Task: &r.TaskID})
		} else if r.State == clusterdoc.TaskOrdered {
			o.client.Send(&pool.Request{Type: pool.Kill, Task: &r.TaskID})
		}
		return false
	case r.State == clusterdoc.TaskOrdered:
		return false
	case !final:
		o.has[r.TaskID].round = r.Round
		return o.owner.told(*r)
	}
	delete(o.late, r.TaskID)
	o.changed = time.Now()
	return o.end(*r)
}

// end notes the end of a parameter server or task.
func (o *poolOf) end(r clusterdoc.TaskReport) (news bool) {
	o.has[r.TaskID].ended = true
	return o.owner.told(r)
}

// lose notes that the process is gone, with all that it had.
func (o *poolOf) lose(why string) {
	log := o.cfg.Logger
	if o.deaths++; o.phase == poolEnding || o.phase == poolUp && time.Since(o.begun) > poolPause {
		o.deaths = 0
	}
	var lost []clusterdoc.TaskID
	for _, id := range sortedIDs(o.has) {
		if !o.has[id].ended {
			queued := slices.ContainsFunc(o.queue, func(q *pool.Request) bool { return q.Order != nil && q.Order.TaskID == id })
			if !queued || o.phase == poolStarting {
				lost = append(lost, id)
			}
		}
	}
	if len(lost) > 0 {
		log.Error("the pool is gone", "reason", why, "tasks", len(lost))
	}
	if o.phase == poolStarting {
		o.queue = nil
	}
	if o.client != nil {
		o.client.Close()
		o.client = nil
	}
	o.to(poolNone)
	clear(o.late)
	for _, id := range lost {
		o.end(clusterdoc.TaskReport{TaskID: id, State: clusterdoc.TaskLost, Error: why, Round: o.has[id].round})
	}
	o.begin(o.holds)
	if len(o.queue) > 0 {
		o.launch()
	}
}

// look ends a pool that has nothing to do, and kills one that does not obey.
func (o *poolOf) look() {
	now := time.Now()
	since := now.Sub(o.changed)
	switch o.phase {
	case poolUp:
		if len(o.has) == 0 && len(o.starts) == 0 && since > poolIdle {
			o.client.Send(&pool.Request{Type: pool.End})
			o.to(poolEnding)
			return
		}
		for id, by := range o.late {
			if now.After(by) {
				o.killPool(fmt.Sprintf("job %s did not end", id.Job))
				return
			}
		}
		if len(o.starts) > 0 && since > poolStart {
			o.killPool("it did not leave its devices")
			return
		}
		o.listenFor(now)
	case poolStarting:
		if since > poolStart+poolPause {
			o.killPool("it does not answer")
		}
	case poolEnding:
		if since > o.obeys {
			o.killPool("it did not end")
		}
	case poolNone:
	}
}

// leastUnheard is how often look has to find no answer. One that came while the agent itself was stopped is heard
// before.
const leastUnheard = 3

// listenFor asks a process that has been silent for long whether it is there, and kills one that does not answer.
func (o *poolOf) listenFor(now time.Time) {
	silent := now.Sub(o.heard) > o.obeys
	switch {
	case o.unheard == 0 && silent:
		o.client.Send(&pool.Request{Type: pool.Ping})
		o.heard, o.unheard = now, 1
	case o.unheard > 0:
		if o.unheard++; silent && o.unheard > leastUnheard {
			o.killPool("it does not answer")
		}
	}
}

// killPool kills the process of the pool.
func (o *poolOf) killPool(why string) {
	if o.killed {
		return
	}
	o.killed = true
	o.cfg.Logger.Error("the pool is killed", "reason", why)
	if r, ok := runner.Find(o.dir); ok {
		_ = r.Signal(unix.SIGINT)
		time.AfterFunc(runnerObeys, func() { // its runner may have been stopped
			if r.Alive() && o.context.Err() == nil {
				_ = runner.End(o.dir) // a process that does not end keeps the pool as it is
			}
		})
	}
}
