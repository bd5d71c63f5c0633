package model

import (
	"github.com/hare-sched/hare"
	"slices"
	"strconv"
	"strings"
)

// gpuPlace is GPU number index of a node.
type gpuPlace struct {
	node  string
	index int
}

// placeOf splits the name of a GPU.
func placeOf(gpu string) gpuPlace {
	slash := strings.LastIndexByte(gpu, '/')
	index, err := strconv.Atoi(gpu[slash+1:])
	if slash < 0 || err != nil {
		return gpuPlace{index: -1}
	}
	return gpuPlace{gpu[:slash], index}
}

// RunningUntilUs returns E, when the work of a job that runs at time 0 ends: that of its
// round for gang jobs, and of all that is left for rigid jobs. It is 0 where nothing runs. A
// round takes the longest d of the types on which the job runs. The instance must be valid.
// It takes O(GPUs of the job) and a map of the node names.
func RunningUntilUs(inst *hare.Instance, job int) int64 {
	if !inst.Jobs[job].Running() {
		return 0
	}
	return newNodeIndex(&inst.Cluster).runsUntil(&inst.Jobs[job])
}

// nodeIndex finds the nodes of a cluster by name, and their domains.
type nodeIndex struct {
	cluster *hare.Cluster
	byName  map[string]int
	levels  *hare.Levels // nil until a time goes by spread
}

func newNodeIndex(c *hare.Cluster) *nodeIndex {
	ni := &nodeIndex{cluster: c, byName: make(map[string]int, len(c.Nodes))}
	for i := range c.Nodes {
		ni.byName[c.Nodes[i].Name] = i
	}
	return ni
}

// spread returns the finest level that has the nodes of all GPUs in one domain.
func (ni *nodeIndex) spread(gpus []string) (level int) {
	if ni.levels == nil {
		ni.levels = hare.NewLevels(ni.cluster)
	}
	first := ni.byName[placeOf(gpus[0]).node]
	for _, gpu := range gpus {
		level = ni.levels.Join(level, first, ni.byName[placeOf(gpu).node])
	}
	return level
}

// runsUntil returns E of a job that runs at time 0.
func (ni *nodeIndex) runsUntil(j *hare.Job) int64 {
	longest, spread, spreads, s := int64(0), 0, j.Spreads(), j.Shape(j.Progress.Shape)
	if spreads {
		spread = ni.spread(j.Progress.GPUs)
	}
	for _, gpu := range j.Progress.GPUs {
		place := placeOf(gpu)
		index := place.index
		for _, t := range ni.cluster.Nodes[ni.byName[place.node]].GPUs {
			if index -= t.Count; index < 0 {
				p, _ := s.Profile(t.Type)
				if spreads {
					p.SyncUs = ni.levels.SyncUs(&p, spread)
				}
				longest = max(longest, p.DurationUs())
				break
			}
		}
	}
	until, _ := j.RunningEnd(longest)
	return until
}

// runningUntil returns when the running work on each GPU ends; nil means that nothing runs.
func runningUntil(inst *hare.Instance) map[gpuPlace]int64 {
	var until map[gpuPlace]int64
	var nodes *nodeIndex
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if !j.Running() {
			continue
		}
		if until == nil {
			until = map[gpuPlace]int64{}
			nodes = newNodeIndex(&inst.Cluster)
		}
		ends := nodes.runsUntil(j)
		for _, gpu := range j.Progress.GPUs {
			until[placeOf(gpu)] = ends
		}
	}
	return until
}

// addRunning fills in what of the jobs runs at time 0.
func (m *Model) addRunning() {
	var gpus map[string]int32
	var nodes *nodeIndex
	for i := range m.Jobs {
		spec, j := &m.Instance.Jobs[i], &m.Jobs[i]
		if !spec.Running() {
			continue
		}
		if gpus == nil {
			gpus = make(map[string]int32, len(m.GPUs))
			for g := range m.GPUs {
				gpus[m.GPUs[g].ID] = int32(g)
			}
			nodes = newNodeIndex(&m.Instance.Cluster)
		}
		j.RunsUntilUs = nodes.runsUntil(spec)
		for _, gpu := range spec.Progress.GPUs {
			j.RunsOn = append(j.RunsOn, gpus[gpu])
		}
		if j.Sync == hare.Rigid {
			j.FirstRound, j.Rounds = spec.Rounds, 0
		} else {
			units := min(j.Rounds, spec.Shape(spec.Progress.Shape).Counts)
			j.FirstRound, j.Rounds = j.FirstRound+units, j.Rounds-units
		}
	}
}

// addQuotas fills in the quotas. It takes O(jobs · users + quotas · types + what runs).
func (m *Model) addQuotas() {
	if len(m.Instance.Quota) == 0 {
		return
	}
	byUser := map[string][]int32{}
	m.Quotas = make([]Quota, len(m.Instance.Quota))
	for q := range m.Quotas {
		spec := &m.Instance.Quota[q]
		byUser[spec.User] = append(byUser[spec.User], int32(q))
		quota := Quota{GPUs: spec.GPUs, Types: make([]bool, len(m.Types))}
		for k, t := range m.Types {
			_, listed := slices.BinarySearch(spec.Types, t)
			quota.Types[k] = spec.Types == nil || listed
		}
		m.Quotas[q] = quota
	}
	running := make([]map[int64]int64, len(m.Quotas))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		for _, user := range m.Instance.Jobs[i].Users {
			j.Quotas = append(j.Quotas, byUser[user]...)
		}
		slices.Sort(j.Quotas)
		for _, q := range j.Quotas {
			for _, g := range j.RunsOn {
				if !m.Quotas[q].Types[m.GPUs[g].Type] {
					continue
				}
				if running[q] == nil {
					running[q] = map[int64]int64{}
				}
				running[q][0]++
				running[q][j.RunsUntilUs]--
			}
		}
	}
	for q := range m.Quotas {
		if running[q] != nil {
			m.Quotas[q].Running = sumChanges(running[q])
		}
	}
}

// addDependencies fills in predecessors and deadlines.
func (m *Model) addDependencies() {
	var index map[string]int
	for i := range m.Jobs {
		spec, j := &m.Instance.Jobs[i], &m.Jobs[i]
		if m.Instance.Objective == hare.ObjectiveJCTAndTardiness {
			j.DeadlineUs, j.LateWeightMicro = spec.DeadlineUs, spec.LateWeightMicro
		}
		for _, p := range spec.After {
			if index == nil {
				index = make(map[string]int, len(m.Jobs))
				for x := range m.Instance.Jobs {
					index[m.Instance.Jobs[x].ID] = x
				}
			}
			j.After = append(j.After, Predecessor{index[p.Job], p.LagUs})
		}
	}
}
