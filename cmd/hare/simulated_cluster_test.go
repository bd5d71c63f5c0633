package main

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
)

// answerUs is how long decisions take to reach the simulated cluster. Events within
// this time do not depend on the decisions, so all of them are sent at once.
const answerUs = 200_000

// shortestUs is the least time that a task takes on the simulated cluster.
const shortestUs = answerUs

// simulatedCluster executes the decisions of a session on a simulated clock. Its next
// events depend only on the seed and the answers so far.
type simulatedCluster struct {
	rng     *rand.Rand
	seq     int64
	due     eventQueue
	ordered int64
	jobs    map[string]*clusterJob
	gpus    map[string]string // name to type
	names   []string          // in service
	made    int
}

type clusterJob struct {
	rounds int64 // rounds until the job ends
	tasks  int64
	ended  map[int64]int64 // tasks by round
	gone   bool
}

// plannedEvent is a future event. valid is false once the task of the event has been
// withdrawn.
type plannedEvent struct {
	event hare.Event
	order int64
	valid *bool
}

type eventQueue []plannedEvent

func (h eventQueue) Len() int { return len(h) }
func (h eventQueue) Less(i, j int) bool {
	if h[i].event.AtUs != h[j].event.AtUs {
		return h[i].event.AtUs < h[j].event.AtUs
	}
	return h[i].order < h[j].order
}
func (h eventQueue) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventQueue) Push(x any)   { *h = append(*h, x.(plannedEvent)) }
func (h *eventQueue) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newSimulatedCluster(seed uint64) (*simulatedCluster, *hare.Cluster) {
	c := &simulatedCluster{rng: rand.New(rand.NewPCG(seed, 7)), jobs: map[string]*clusterJob{}, gpus: map[string]string{}}
	cluster := &hare.Cluster{}
	for i, kind := range []string{"A100", "V100", "T4"} {
		n := hare.Node{Name: string(rune('a' + i)), GPUs: []hare.TypeCount{{Type: kind, Count: 16}}}
		for g := range 16 {
			name := fmt.Sprintf("%s/%d", n.Name, g)
			c.gpus[name] = kind
			c.names = append(c.names, name)
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	c.plan(hare.Event{AtUs: 0, Type: hare.EventJobArrived}, nil)
	c.plan(hare.Event{AtUs: 40_000_000, Type: hare.EventGPULeft}, nil)
	c.plan(hare.Event{AtUs: 50_000_000, Type: hare.EventGPUJoined}, nil)
	c.plan(hare.Event{AtUs: 90_000_000, Type: hare.EventJobCancelled}, nil)
	return c, cluster
}

func (c *simulatedCluster) plan(e hare.Event, valid *bool) {
	if valid == nil {
		valid = new(true)
	}
	c.ordered++
	heap.Push(&c.due, plannedEvent{e, c.ordered, valid})
}

// next returns the events that can be sent before the answer to the first of
// them is known.
func (c *simulatedCluster) next() (events []hare.Event) {
	var until int64
	for len(c.due) > 0 && (len(events) == 0 || c.due[0].event.AtUs < until) {
		x := heap.Pop(&c.due).(plannedEvent)
		if !*x.valid {
			continue
		}
		if len(events) == 0 {
			until = x.event.AtUs + answerUs
		}
		from := len(events)
		events = c.emit(events, x.event)
		last := events[len(events)-1].Type
		if len(events) > from && (last == hare.EventGPULeft || last == hare.EventTaskFailed ||
			last == hare.EventJobCancelled) {
			break // the answer says which planned events this event cancels
		}
	}
	for i := range events {
		c.seq++
		events[i].Seq = c.seq
	}
	return events
}

// emit appends the events that a planned event causes.
func (c *simulatedCluster) emit(events []hare.Event, e hare.Event) []hare.Event {
	later := func(least, most int64) hare.Event {
		e := e
		e.AtUs += least + c.rng.Int64N(most-least)
		return e
	}
	switch e.Type {
	case hare.EventJobArrived:
		c.plan(later(100_000, 3_000_000), nil)
		if len(c.jobs) < 40 {
			e.Arrived = c.newJob()
			e.Job = e.Arrived.ID
			return append(events, e)
		}
		e.Type = hare.EventTick
	case hare.EventGPULeft:
		c.plan(later(20_000_000, 60_000_000), nil)
		if len(c.names) > 30 {
			i := c.rng.IntN(len(c.names))
			e.GPU = c.names[i]
			c.names = slices.Delete(c.names, i, i+1)
			delete(c.gpus, e.GPU)
			return append(events, e)
		}
		e.Type = hare.EventTick
	case hare.EventGPUJoined:
		c.plan(later(20_000_000, 60_000_000), nil)
		c.made++
		e.GPU, e.GPUType = fmt.Sprintf("x/%d", c.made), []string{"A100", "V100", "T4", "H100"}[c.rng.IntN(4)]
		c.gpus[e.GPU] = e.GPUType
		c.names = append(c.names, e.GPU)
	case hare.EventJobCancelled:
		c.plan(later(50_000_000, 200_000_000), nil)
		ids := make([]string, 0, len(c.jobs))
		for id := range c.jobs {
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			e.Type = hare.EventTick
			break
		}
		slices.Sort(ids)
		e.Job = ids[c.rng.IntN(len(ids))]
		c.jobs[e.Job].gone = true
		delete(c.jobs, e.Job)
	case hare.EventTaskEnded:
		j := c.jobs[e.Job]
		if j.ended[e.Round]++; j.ended[e.Round] == j.tasks && e.Round+1 == j.rounds {
			events = append(events, e)
			j.gone = true
			delete(c.jobs, e.Job)
			e = hare.Event{AtUs: e.AtUs, Type: hare.EventJobEnded, Job: e.Job}
		}
	}
	return append(events, e)
}

func (c *simulatedCluster) newJob() *hare.Job {
	c.made++
	j := &hare.Job{ID: fmt.Sprintf("job-%d", c.made), WeightMicro: 1_000_000 * (1 + c.rng.Int64N(3)),
		Tasks: 1 + c.rng.Int64N(6)}
	if c.rng.IntN(2) == 0 {
		j.Sync = hare.Gang
	}
	for _, kind := range []string{"A100", "H100", "T4", "V100"} {
		if kind == "V100" || c.rng.IntN(3) > 0 {
			p := hare.Profile{Type: kind}
			if c.rng.IntN(3) > 0 { // without times the policy must learn the speed
				p.ComputeUs, p.SyncUs = shortestUs+c.rng.Int64N(2_000_000), c.rng.Int64N(300_000)
			}
			j.On = append(j.On, p)
		}
	}
	c.jobs[j.ID] = &clusterJob{rounds: 1 + c.rng.Int64N(30), tasks: j.Tasks, ended: map[int64]int64{}}
	return j
}

// running returns the valid flags of the events that are planned for a task.
func (c *simulatedCluster) running(d *hare.Decision) (found []*bool) {
	for i := range c.due {
		e := &c.due[i].event
		if e.Job == d.Job && e.Round == d.Round && e.Task == d.Task && e.GPU == d.GPU &&
			(e.Type == hare.EventTaskEnded || e.Type == hare.EventComputeEnded || e.Type == hare.EventTaskFailed) {
			found = append(found, c.due[i].valid)
		}
	}
	return found
}

// apply plans the events that follow from decisions.
func (c *simulatedCluster) apply(ds []hare.Decision) error {
	for i := range ds {
		d := &ds[i]
		if d.Type == hare.DecisionWithdraw {
			for _, valid := range c.running(d) {
				*valid = false
			}
			continue
		}
		if len(slices.DeleteFunc(c.running(d), func(valid *bool) bool { return !*valid })) > 0 {
			return fmt.Errorf("%v runs already", *d)
		}
		e := hare.Event{Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU, AtUs: d.AtUs + answerUs}
		valid := new(true)
		e.ComputeUs, e.SyncUs = shortestUs+c.rng.Int64N(2_000_000), c.rng.Int64N(300_000)
		if c.rng.IntN(300) == 0 {
			e.Type, e.AtUs = hare.EventTaskFailed, e.AtUs+e.ComputeUs/2+answerUs
			e.ComputeUs, e.SyncUs = 0, 0
			c.plan(e, valid)
			continue
		}
		end := e
		end.Type, end.AtUs = hare.EventTaskEnded, e.AtUs+e.ComputeUs+e.SyncUs
		c.plan(end, valid)
		if c.rng.IntN(2) == 0 && e.SyncUs > 0 {
			e.Type, e.AtUs = hare.EventComputeEnded, e.AtUs+e.ComputeUs
			e.ComputeUs, e.SyncUs = 0, 0
			c.plan(e, valid)
		}
	}
	return nil
}
