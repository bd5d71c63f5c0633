package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	"github.com/hare-sched/hare/trace"

	"github.com/hare-sched/hare/sim/elastic"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/sharing"
	"github.com/hare-sched/hare/sim/sharing/antman"
)

// leaseInput is the input of policies that lease GPUs.
type leaseInput struct {
	cluster leases.Cluster
	jobs    []leases.Job
	rated   *trace.RatedTrace // nil where the jobs are an instance's
	nodes   *hare.Cluster     // as faults name it
}

// jobsInput holds the jobs of a repeat in the form that each engine needs. Forms
// that no policy needs are nil. Runs share a jobsInput and do not modify it.
type jobsInput struct {
	tasks   *hare.Instance
	merged  *sim.Merged // of tasks, or nil
	leases  *leaseInput
	elastic *elasticInput
	shared  *sharedInput
	notes   []string
}

// checkFits refuses jobs that need more GPUs at once than the cluster has of the
// types that the job can use.
func checkFits(inst *hare.Instance) error {
	have := map[string]int64{}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			have[g.Type] += int64(g.Count)
		}
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		need, sum, most := j.Tasks, int64(0), int64(0)
		for _, p := range j.On {
			sum += have[p.Type]
			most = max(most, have[p.Type])
		}
		if j.Sync == hare.Relaxed {
			need = 1
		} else if j.Mix {
			most = sum
		}
		if most < need {
			return invalidAt("", "no_gpu",
				"job %.60q needs %d GPUs at once among %s, which this cluster does not have", j.ID,
				need, typeNames(j))
		}
	}
	return nil
}

func typeNames(j *hare.Job) string {
	var names []string
	for _, p := range j.On {
		names = append(names, p.Type)
	}
	return strings.Join(names, ", ")
}

// clusterCounts counts the GPUs of a cluster by type. All GPUs must always be in
// service.
func clusterCounts(c *hare.Cluster) ([]hare.TypeCount, error) {
	var counts []hare.TypeCount
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Windows != nil || len(n.Busy) > 0 {
			return nil, invalidAt(fmt.Sprintf("/cluster/nodes/%d", i), "not_steady",
				"policies that lease or share GPUs, or change widths, have GPUs that are always in service, and those of node "+
					"%.60q are not: leave in_service_s and busy out, or compare policies of tasks alone", n.Name)
		}
		for _, g := range n.GPUs {
			at := slices.IndexFunc(counts, func(c hare.TypeCount) bool { return c.Type == g.Type })
			if at < 0 {
				at = len(counts)
				counts = append(counts, hare.TypeCount{Type: g.Type})
			}
			counts[at].Count += g.Count
		}
	}
	slices.SortFunc(counts, func(a, b hare.TypeCount) int { return cmp.Compare(a.Type, b.Type) })
	return counts, nil
}

func (in *jobsInput) jobs() int {
	switch {
	case in.tasks != nil:
		return len(in.tasks.Jobs)
	case in.leases != nil:
		return len(in.leases.jobs)
	}
	return len(in.elastic.jobs)
}

// played returns the instance that the task engine simulates; nil where no policy
// is one of tasks.
func (in *jobsInput) played(r *request) *hare.Instance {
	tasks := slices.ContainsFunc(r.Policies, func(name string) bool {
		p, err := registry.Find(name)
		return err == nil && p.Engine == registry.Task
	})
	switch {
	case !tasks:
		return nil
	case in.merged != nil:
		return in.merged.Inst
	}
	return in.tasks
}

// gpus counts the GPUs of the cluster.
func (in *jobsInput) gpus() int {
	n := 0
	if in.tasks == nil && in.leases == nil {
		for _, k := range in.elastic.cluster.Nodes {
			n += k
		}
		return n
	}
	if in.tasks == nil {
		for _, k := range in.leases.cluster.GPUs {
			n += k
		}
		return n
	}
	for _, node := range in.tasks.Cluster.Nodes {
		for _, g := range node.GPUs {
			n += g.Count
		}
	}
	return n
}

// tasksOf returns the sum of rounds · tasks over all jobs, but at most most + 1.
func tasksOf(inst *hare.Instance, most int64) int64 {
	n := int64(0)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Rounds > (most-n)/max(1, j.Tasks) {
			return most + 1
		}
		n += j.Rounds * j.Tasks
	}
	return n
}

// elasticInput is the input of elastic policies, which change the widths of jobs.
type elasticInput struct {
	cluster elastic.Cluster
	jobs    []elastic.Job
}

// sharedInput is the input of policies that let jobs share GPUs.
type sharedInput struct {
	counts  []hare.TypeCount
	memory  []float64     // GiB of a GPU by type; 0 where the cluster does not say
	nodes   []antman.Node // without memory
	jobs    []antman.Job  // what is drawn is missing
	kinds   []sharing.Kind
	weights []float64
}
