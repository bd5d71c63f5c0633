package clusters

import (
	"context"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Stats are the numbers of all clusters of a server.
type Stats struct {
	Clusters, Agents, GPUs, FreeGPUs int
	// Silent counts the clusters that gave no answer: their journal is damaged, or the disk is slow.
	Silent int
	Jobs   map[clusterdoc.JobState]int
	// What follows is counted since the server started: records that became durable, the commits that they were
	// made durable with, commits that failed, leases that ran out, bytes of outputs stored, jobs whose outputs were
	// removed to make room, copies of checkpoints that became durable, and bytes of copies stored.
	Records, Commits, Failures, Expired, LogBytes, LogsRemoved, Copies, CopyBytes int64
}

// Stats counts. Clusters that do not answer until ctx ends are counted as silent.
func (cs *Clusters) Stats(ctx context.Context) Stats {
	cs.mu.Lock()
	all := make([]*Cluster, 0, len(cs.clusters))
	for _, c := range cs.clusters {
		all = append(all, c)
	}
	cs.mu.Unlock()
	n := &cs.counts
	s := Stats{Clusters: len(all), Jobs: map[clusterdoc.JobState]int{}, Records: n.records.Load(),
		Commits: n.commits.Load(), Failures: n.failures.Load(), Expired: n.expired.Load(), LogBytes: n.logBytes.Load(),
		LogsRemoved: n.logsRemoved.Load(), Copies: n.copies.Load(), CopyBytes: n.copyBytes.Load()}
	for _, c := range all {
		d, err := c.Describe(ctx)
		if err != nil {
			s.Silent++
			continue
		}
		s.Agents += d.Agents
		s.GPUs += d.GPUs
		s.FreeGPUs += d.FreeGPUs
		for state, jobs := range d.Jobs {
			s.Jobs[state] += jobs
		}
	}
	return s
}
