package clusters_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// follower has the jobs and agents of a cluster, which it reads again as the changes of the cluster say.
type follower struct {
	t      *testing.T
	after  int64
	resets int
	jobs   map[string]*clusterdoc.Job
	agents map[string]*clusterdoc.Agent
}

func newFollower(t *testing.T) *follower { return &follower{t: t, after: -1} }

// read takes changes until there is none, and checks that the follower has what the lists had before.
func (f *follower) read(c *clusters.Cluster) {
	f.t.Helper()
	at, cancel := context.WithCancel(f.t.Context())
	cancel() // waits for no change
	for {
		jobs, agents := f.lists(c)
		found := false
		for change, err := range c.Changes(at, f.after) {
			if found = err == nil; found {
				f.take(c, &change)
			}
			break
		}
		if found {
			continue
		}
		if !reflect.DeepEqual(f.jobs, jobs) || !reflect.DeepEqual(f.agents, agents) {
			f.t.Fatalf("at %d the follower has %v and %v, and the lists have %v and %v", f.after, f.jobs, f.agents, jobs,
				agents)
		}
		return
	}
}

// take reads again what a change names.
func (f *follower) take(c *clusters.Cluster, change *changes.Change) {
	f.t.Helper()
	f.after = change.Seq
	jobs, agents := f.lists(c)
	if change.Reset {
		f.resets++
		f.jobs, f.agents = jobs, agents
	}
	for _, t := range change.Things {
		switch t.Kind {
		case changes.Job:
			if f.jobs[t.Name] = jobs[t.Name]; t.Gone && !jobs[t.Name].State.Final() {
				f.t.Errorf("%+v is %s", t, jobs[t.Name].State)
			}
		case changes.Node:
			f.agents[t.Name] = agents[t.Name]
		}
	}
}

// lists are all jobs and agents without what follows from others: what a job waits for, and when an agent was heard.
func (f *follower) lists(c *clusters.Cluster) (map[string]*clusterdoc.Job, map[string]*clusterdoc.Agent) {
	f.t.Helper()
	list, err := c.Jobs(f.t.Context(), &clusters.Query{Limit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	jobs, agents := map[string]*clusterdoc.Job{}, map[string]*clusterdoc.Agent{}
	for _, j := range list.Jobs {
		if jobs[j.ID] = j; !j.State.Final() {
			j.Place, j.ExpectedInS, j.ExpectedEndInS, j.EarliestEndInS = 0, nil, nil, nil
			j.Reason, j.ReasonShort, j.ReasonCode = "", "", ""
		}
	}
	all, err := c.Agents(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range all {
		a.SeenS = 0
		agents[a.Name] = a
	}
	return jobs, agents
}
