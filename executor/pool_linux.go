package executor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/clusters/description"
	"github.com/hare-sched/hare/executor/pool"
	"github.com/hare-sched/hare/executor/runner"
)

// poolOf is the process that computes for relaxed round jobs, as its agent sees it. Only the goroutine of the agent
// uses it, but for events.
type poolOf struct {
	agent  *Agent
	dir    string
	phase  poolPhase
	life   int // counts the processes
	client *pool.Client
	queue  []*pool.Request // for a process that does not listen yet
	has    map[description.TaskID]bool
	// late has when what was told to end must have ended; then the process is killed.
	late map[description.TaskID]time.Time
	// holds counts the requests to leave devices to other programs. starts are the orders that wait for the answer.
	holds   int64
	starts  []waiting
	events  chan poolEvent
	changed time.Time // when phase has changed, or the last home or task has ended
	begun   time.Time
	deaths  int // in a row, soon after the start
	killed  bool
}

type poolPhase int

const (
	poolNone poolPhase = iota
	poolStarting
	poolUp
	poolEnding // it was told to end, or its connection is over
)

// waiting is an order that waits until its devices are free of the pool's workers.
type waiting struct {
	hold  int64
	order *description.Order
}

// poolEvent is what happens to a process of the pool.
type poolEvent struct {
	life   int
	client *pool.Client // it listens now
	event  *pool.Event
	gone   bool // no process is left
	why    string
	again  bool // it may be started now
}

const (
	// poolStart is how long the pool may take to listen, and to leave devices to other programs.
	poolStart = 30 * time.Second
	// poolObeys is how long the pool may take to end what it was told to end, beyond the grace.
	poolObeys = 15 * time.Second
	// poolRest is the most time between two starts of a pool that ends at once.
	poolRest = 10 * time.Second
)

// poolIdle is how long the pool stays that has nothing to do. It is a variable for tests.
var poolIdle = time.Minute

func newPoolOf(a *Agent) *poolOf {
	return &poolOf{agent: a, dir: filepath.Join(a.cfg.Directory, "pool"), has: map[description.TaskID]bool{},
		late: map[description.TaskID]time.Time{}, events: make(chan poolEvent)}
}

// tell gives an event to the goroutine of the agent.
func (o *poolOf) tell(e poolEvent) {
	select {
	case o.events <- e:
	case <-o.agent.context.Done():
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

// start gives the process a home or task.
func (o *poolOf) start(q *pool.Request) {
	o.has[q.Order.TaskID] = true
	o.send(q)
}

// stop tells a home or task to end.
func (o *poolOf) stop(id description.TaskID, graceS float64) {
	if o.has[id] {
		o.late[id] = time.Now().Add(time.Duration(graceS*float64(time.Second)) + poolObeys)
		o.send(&pool.Request{Type: pool.Stop, Task: &id, GraceS: graceS})
	}
}

// kill ends a home or task at once.
func (o *poolOf) kill(id description.TaskID) {
	if o.has[id] {
		o.late[id] = time.Now().Add(poolObeys)
		o.send(&pool.Request{Type: pool.Kill, Task: &id})
	}
}

// forget says that the server has the end of a home or task.
func (o *poolOf) forget(id description.TaskID) {
	if o.has[id] {
		delete(o.has, id)
		o.changed = time.Now()
		if o.phase == poolUp {
			o.client.Send(&pool.Request{Type: pool.Forget, Task: &id})
		}
	}
}

// held are the devices that the pool must leave alone: those of other programs, and those that are not well.
func (o *poolOf) held() []int {
	all := []int{}
	for _, devices := range o.agent.uses {
		all = append(all, devices...)
	}
	for i := range o.agent.faults {
		all = append(all, i)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hold tells the process which devices to leave alone. One that starts is told when it listens.
func (o *poolOf) hold() {
	o.holds++
	if o.phase == poolUp {
		o.client.Send(&pool.Request{Type: pool.Hold, Number: o.holds, Devices: o.held()})
	}
}

// makeWay has an order wait until its devices are free of the pool's workers; false where there is none.
func (o *poolOf) makeWay(order *description.Order) bool {
	if o.phase == poolNone || len(order.Start.Devices) == 0 {
		return false
	}
	o.hold()
	o.starts = append(o.starts, waiting{o.holds, order})
	o.changed = time.Now()
	return true
}

// giveUp drops an order that waits for its devices; false where it does not.
func (o *poolOf) giveUp(id description.TaskID) bool {
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
		o.agent.begin(w.order)
	}
}

// extend lets the process go on until a time.
func (o *poolOf) extend(until time.Duration) {
	if o.phase == poolNone {
		return
	}
	if err := runner.SetLease(o.dir, until); err != nil && !errors.Is(err, os.ErrNotExist) {
		o.agent.cfg.Logger.Error("the lease of the pool cannot be written: its tasks will end", "error", err)
	}
}

// launch starts the process. One that ended at once rests first.
func (o *poolOf) launch() {
	o.to(poolStarting)
	o.life++
	o.killed = false
	if o.deaths > 1 {
		rest := min(100*time.Millisecond<<min(o.deaths, 10), poolRest)
		life := o.life
		time.AfterFunc(rest, func() { o.tell(poolEvent{life: life, again: true}) })
		return
	}
	o.launchNow()
}

func (o *poolOf) launchNow() {
	o.begun = time.Now()
	over, err := o.spawn()
	if err != nil {
		o.agent.cfg.Logger.Error("the process that computes for relaxed round jobs cannot be started", "error", err)
		life := o.life
		go o.tell(poolEvent{life: life, gone: true, why: err.Error()})
		return
	}
	go o.watch(o.life, over)
	go o.connect(o.life, over)
}

// spawn writes the directory of the process and starts its runner. over is closed when the runner has ended.
func (o *poolOf) spawn() (over chan struct{}, err error) {
	a := o.agent
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, err
	}
	spec := &pool.Spec{Python: a.cfg.Python, MemoryBytes: a.cfg.ModelBytes, LogLimit: a.logLimit}
	for i, d := range a.cfg.Devices.Devices() {
		spec.Devices = append(spec.Devices, pool.Device{Type: d.Type, Visible: a.cfg.Devices.Visible(i)})
	}
	token := strings.ToLower(rand.Text())
	run := &runner.Spec{Command: slices.Concat(a.cfg.PoolRunner, []string{o.dir}), Directory: o.dir, LogLimit: 1 << 20,
		Token: token, Cgroup: a.cgroup, Env: append(a.passedOn(nil), "HARE_TASK_TOKEN="+token)}
	err = pool.WriteSpec(o.dir, spec)
	if err == nil {
		err = runner.SetLease(o.dir, a.leaseUntil)
	}
	if err == nil {
		err = runner.WriteSpec(o.dir, run)
	}
	if err != nil {
		return nil, err
	}
	child, started, err := a.startRunner(o.dir)
	if err != nil {
		return nil, err
	}
	_ = started.Close()
	over = make(chan struct{})
	go func() {
		_, _ = child.Wait()
		close(over)
	}()
	return over, nil
}

// watch tells the agent when no process of the pool is left.
func (o *poolOf) watch(life int, over <-chan struct{}) {
	<-over
	if o.agent.context.Err() != nil {
		return // the next life of the agent sees to it
	}
	e, err := runner.ReadExit(o.dir)
	why := e.Error
	if err != nil {
		if err := runner.Clear(o.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			o.agent.cfg.Logger.Error("processes of the pool may be left", "error", err)
		}
		why = "the process that watches over the pool was killed"
	}
	if why == "" {
		why = "the process that computes for relaxed round jobs has ended"
		if e.Signal != "" {
			why += " by " + e.Signal
		}
		if text, _ := os.ReadFile(filepath.Join(o.dir, description.StreamStderr)); len(text) > 0 {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			last := lines[len(lines)-1]
			why += ": " + last[:min(len(last), 200)]
		}
	}
	if err := patiently(func() error { return os.RemoveAll(o.dir) }); err != nil {
		o.agent.cfg.Logger.Warn("the directory of the pool cannot be removed", "error", err)
	}
	o.tell(poolEvent{life: life, gone: true, why: why})
}

// connect connects to the process when it listens.
func (o *poolOf) connect(life int, over <-chan struct{}) {
	for {
		c, err := pool.Dial(o.dir)
		if err == nil {
			o.tell(poolEvent{life: life, client: c})
			o.listen(life, c)
			return
		}
		select {
		case <-over:
			return
		case <-o.agent.context.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// listen gives the events of the process to the agent.
func (o *poolOf) listen(life int, c *pool.Client) {
	defer c.Close()
	for {
		e, err := c.Receive()
		if err != nil {
			return // the end of the process follows
		}
		o.tell(poolEvent{life: life, event: e})
	}
}

// take notes what has happened, and says whether there is news for the server.
func (o *poolOf) take(e poolEvent) (news bool) {
	if e.life != o.life {
		return false
	}
	switch {
	case e.again:
		o.launchNow()
	case e.client != nil:
		o.client = e.client
		o.to(poolUp)
		o.hold()
		for _, q := range o.queue {
			o.client.Send(q)
		}
		o.queue = nil
	case e.event != nil && e.event.Type == pool.Held:
		o.begin(e.event.Number)
	case e.event != nil && e.event.Report != nil:
		return o.report(e.event.Report)
	case e.gone:
		o.lose(e.why)
		return true
	}
	return false
}

// report takes what the process says of a home or task.
func (o *poolOf) report(r *description.TaskReport) (news bool) {
	final := r.State == description.TaskEnded || r.State == description.TaskLost
	switch {
	case !o.has[r.TaskID]: // the server has its end, or does not want it
		if final {
			o.client.Send(&pool.Request{Type: pool.Forget, Task: &r.TaskID})
		} else if r.State == description.TaskOrdered {
			o.client.Send(&pool.Request{Type: pool.Kill, Task: &r.TaskID})
		}
		return false
	case r.State == description.TaskOrdered:
		return false
	case !final:
		o.agent.state.progressed(*r)
		return true
	}
	delete(o.late, r.TaskID)
	o.changed = time.Now()
	return o.end(*r)
}

// end notes the end of a home or task. That of a home follows the rest of its outputs.
func (o *poolOf) end(r description.TaskReport) (news bool) {
	p := o.agent.processes[r.TaskID]
	if p == nil || !p.home {
		o.agent.do(o.agent.state.ended(r))
		return true
	}
	if p.end == nil {
		p.end = &r
		close(p.over)
	}
	return false
}

// lose notes that the process is gone, with all that it had.
func (o *poolOf) lose(why string) {
	log := o.agent.cfg.Logger
	if o.deaths++; o.phase == poolEnding || o.phase == poolUp && time.Since(o.begun) > poolRest {
		o.deaths = 0
	}
	var lost []description.TaskID
	for _, id := range o.agent.state.ids() {
		t := o.agent.state.tasks[id]
		if o.has[id] && t.end == nil {
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
		o.end(description.TaskReport{TaskID: id, State: description.TaskLost, Error: why, Round: o.round(id)})
	}
	o.begin(o.holds)
	if len(o.queue) > 0 {
		o.launch()
	}
}

// round is how many rounds a home has said to be saved.
func (o *poolOf) round(id description.TaskID) int64 {
	if t := o.agent.state.tasks[id]; t != nil && t.last != nil {
		return t.last.Round
	}
	return 0
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
				o.end9(fmt.Sprintf("job %s did not end", id.Job))
				return
			}
		}
		if len(o.starts) > 0 && since > poolStart {
			o.end9("it did not leave its devices")
		}
	case poolStarting:
		if since > poolStart+poolRest {
			o.end9("it does not answer")
		}
	case poolEnding:
		if since > poolObeys {
			o.end9("it did not end")
		}
	case poolNone:
	}
}

// end9 kills the process.
func (o *poolOf) end9(why string) {
	if o.killed {
		return
	}
	o.killed = true
	o.agent.cfg.Logger.Error("the pool is killed", "reason", why)
	if r, ok := runner.Find(o.dir); ok {
		_ = r.Signal(unix.SIGINT)
	}
}

// adopt connects to the process of an earlier life of the agent, and takes over what it has.
func (o *poolOf) adopt() error {
	_, ended := runner.ReadExit(o.dir)
	if _, err := os.Stat(o.dir); err != nil || runner.Claim(o.dir) && ended != nil {
		// There is none, or the agent was killed before it ran.
		return patiently(func() error { return os.RemoveAll(o.dir) })
	}
	over := make(chan struct{})
	go func() {
		await(o.dir)
		close(over)
	}()
	o.to(poolEnding)
	o.life++
	go o.watch(o.life, over)
	c := o.dial(over)
	if c == nil {
		o.end9("it does not answer the agent that was started again")
		return nil
	}
	for {
		e, err := c.Receive()
		if err != nil {
			o.end9("it does not answer the agent that was started again")
			return nil
		}
		if e.Type == pool.Ready {
			break
		}
		if r := e.Report; r != nil {
			o.takeOver(c, r)
		}
	}
	o.client = c
	o.to(poolUp)
	o.hold()
	go o.listen(o.life, c)
	return nil
}

// dial connects to a process that may have ended; nil where it has, or does not answer.
func (o *poolOf) dial(over <-chan struct{}) *pool.Client {
	patience := time.After(poolObeys)
	for {
		if c, err := pool.Dial(o.dir); err == nil {
			return c
		}
		select {
		case <-over:
			return nil
		case <-patience:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// takeOver goes on with a home or task. A home that has not said its port is given up, because the server must not
// hear of it without.
func (o *poolOf) takeOver(c *pool.Client, r *description.TaskReport) {
	home := r.Task == 0
	if home && r.State == description.TaskOrdered {
		c.Send(&pool.Request{Type: pool.Kill, Task: &r.TaskID})
		return
	}
	a := o.agent
	o.has[r.TaskID] = true
	a.state.adopt(r.TaskID, description.OrderCompute)
	if home {
		a.state.tasks[r.TaskID].order = description.OrderHome
		a.state.tasks[r.TaskID].last = r
		if p, err := a.openHome(r.TaskID); err == nil {
			a.processes[r.TaskID] = p
			go a.follow(p)
			go a.exchange(p)
		}
	}
	if r.State == description.TaskEnded || r.State == description.TaskLost {
		go o.tell(poolEvent{life: o.life, event: &pool.Event{Type: pool.Report, Report: r}})
	}
	a.cfg.Logger.Info("a round job of the agent's earlier life goes on", "job", r.Job, "attempt", r.Attempt, "task",
		r.Task)
}

// sweep removes the outputs of homes that the pool does not have.
func (a *Agent) sweep() error {
	dirs, err := filepath.Glob(filepath.Join(a.tasksDir(), "*", homeFile))
	if err != nil {
		return err
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		mine := false
		for _, p := range a.processes {
			mine = mine || p.home && p.dir == dir
		}
		if !mine {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	return nil
}
