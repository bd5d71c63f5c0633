package verify

import (
	"math"
	"math/big"

	"github.com/hare-sched/hare"
)

// supply is what a cluster offers to single jobs, at any time. GPUs, CPUs and memory that
// running work holds are not free until the work ends.
type supply struct {
	inst       *hare.Instance
	running    *running
	quotas     map[string][]int32 // by user: the indices in the instance
	capacities map[string]*typeCapacity
	// placed says that the modes of jobs go by the room on nodes (docs/inside/bounds.md#room-and-modes).
	placed bool
	shaped map[string]bool // the jobs with lists of shapes, for which they do so as well
	rooms  *rooms          // nil if neither nodes, pools nor shapes matter
}

// newSupply takes an instance that is plausible.
func newSupply(inst *hare.Instance, pools []hare.Pool) *supply {
	ru, err := newRunning(inst)
	if err != nil {
		panic(err) // the instance is not plausible
	}
	nodes := ru.nodes(inst)
	s := &supply{inst: inst, running: ru, capacities: capacitiesOf(nodes), placed: nodesMatter(inst),
		quotas: map[string][]int32{}}
	for q := range inst.Quota {
		s.quotas[inst.Quota[q].User] = append(s.quotas[inst.Quota[q].User], int32(q))
	}
	for i := range inst.Jobs {
		if inst.Jobs[i].Shapes != nil {
			if s.shaped == nil {
				s.shaped = map[string]bool{}
			}
			s.shaped[inst.Jobs[i].ID] = true
		}
	}
	if s.placed || len(pools) > 0 || s.shaped != nil {
		s.rooms = newRooms(inst, nodes, ru, pools)
	}
	return s
}

// quota returns the least number of GPUs that some quota allows a job on a type, or a number
// beyond all GPUs.
func (su *supply) quota(job *hare.Job, kind string) int64 {
	least := int64(2 * hare.MaxGPUs)
	for _, user := range job.Users {
		for _, q := range su.quotas[user] {
			if quota := &su.inst.Quota[q]; quota.GPUs < least && counts(quota, job, kind) {
				least = quota.GPUs
			}
		}
	}
	return least
}

// choices returns the types on which a job can run, with the greatest number of its tasks that
// find room at once. It returns none if the job may mix types and never finds room for all
// tasks.
func (su *supply) choices(job *hare.Job) []typeChoice {
	if su.rooms != nil && su.rooms.levels != nil && job.Sync != hare.Relaxed {
		return su.levelChoices(job)
	}
	out := make([]typeChoice, 0, len(job.On))
	strict := su.placed || su.shaped != nil && su.shaped[job.ID]
	for _, p := range job.On {
		n := su.capacities[p.Type].peak()
		if strict {
			n = su.rooms.of(job, p.Type).fit
			switch quota := su.quota(job, p.Type); {
			case job.Sync == hare.Relaxed:
				n = min(n, quota/gpusOf(job))
			case !job.Mix && (n < job.Tasks || quota < job.Tasks*gpusOf(job)):
				n = 0
			}
		}
		if n > 0 {
			out = append(out, typeChoice{kind: p.Type, p: p.ComputeUs, s: p.SyncUs, d: p.ComputeUs + p.SyncUs,
				count: n, setup: p.SwitchUs})
		}
	}
	if strict && job.Mix && su.rooms.together(job) < job.Tasks {
		return nil
	}
	return out
}

// levelChoices is choices of a gang or rigid job where levels matter: by type and level.
func (su *supply) levelChoices(job *hare.Job) []typeChoice {
	tp := su.rooms.levels
	var out []typeChoice
	for i := range job.On {
		p := &job.On[i]
		for _, level := range tp.modeLevels(job, p) {
			n := su.rooms.inDomain(job, job.On[i:i+1], level)
			switch {
			case !job.Mix && (n < job.Tasks || su.quota(job, p.Type) < job.Tasks*gpusOf(job)),
				job.Mix && su.rooms.inDomain(job, job.On, level) < job.Tasks:
				n = 0
			}
			if n > 0 {
				s := tp.syncAt(p, level)
				out = append(out, typeChoice{kind: p.Type, p: p.ComputeUs, s: s, d: p.ComputeUs + s, count: n,
					setup: p.SwitchUs, level: level})
			}
		}
	}
	return out
}

// shapedJob is what is left of a job if all of it has one shape.
type shapedJob struct {
	job     hare.Job // without a list of shapes; its rounds are those that are left
	counts  int64    // u, the units of a round
	choices []typeChoice
	tau     int64 // τ, the least time of a round
}

// inShapes returns what is left of a job in each shape of which a round ever finds room. job has
// the units that are left. A job that runs at time 0 and may not change its shape has one.
func (su *supply) inShapes(job *hare.Job) ([]shapedJob, error) {
	var out []shapedJob
	for i, s := range shapesOf(job) {
		if p := job.Progress; p != nil && len(p.GPUs) > 0 && !job.Reshape && i != p.Shape {
			continue
		}
		x := shapedJob{job: inShape(job, &s, job.Rounds), counts: s.Counts}
		x.choices = su.choices(&x.job)
		var err error
		if x.tau, err = leastRound(&x.job, x.choices); err == nil {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return nil, errNever
	}
	return out, nil
}

// leastTime returns ℓ, the least time of what is left of a job in its shapes: of all rounds in one
// shape or, where the shape may change, of the units at the greatest speed. It returns false
// beyond 2^53.
func leastTime(job *hare.Job, shapes []shapedJob) (int64, bool) {
	least := int64(-1)
	for i := range shapes {
		x := &shapes[i]
		t, ok := mul(x.job.Rounds, x.tau)
		if job.Reshape {
			whole := times(job.Rounds, x.tau) // rounded up, because all times are whole
			whole.Add(whole, big.NewInt(x.counts-1)).Quo(whole, big.NewInt(x.counts))
			t, ok = whole.Int64(), whole.IsInt64() && whole.Int64() <= hare.MaxExact
		}
		if ok && (least < 0 || t < least) {
			least = t
		}
	}
	return least, least >= 0
}

// setupOf returns σ, the least setup before the first start of a job.
func setupOf(shapes []shapedJob) int64 {
	least := int64(math.MaxInt64)
	for i := range shapes {
		for _, c := range shapes[i].choices {
			least = min(least, c.setup)
		}
	}
	return least
}

// leastWork returns W of the method machine, the least GPU-time of what is left of a job, as a
// numerator and a denominator, and the least synchronisation after its compute.
func leastWork(job *hare.Job, shapes []shapedJob) (work *big.Rat, sync int64) {
	sync = math.MaxInt64
	for i := range shapes {
		x := &shapes[i]
		task := int64(math.MaxInt64)
		for _, c := range x.choices {
			if job.Sync == hare.Relaxed {
				task, sync = min(task, c.p), min(sync, c.s)
			} else {
				task, sync = min(task, c.d), 0
			}
		}
		w := new(big.Rat).SetInt(times(x.job.Tasks, gpusOf(&x.job), x.job.Rounds, task))
		if job.Reshape {
			w.SetFrac(times(x.job.Tasks, gpusOf(&x.job), job.Rounds, task), big.NewInt(x.counts))
		}
		if work == nil || w.Cmp(work) < 0 {
			work = w
		}
	}
	return work, sync
}
