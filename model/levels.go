package model

import "github.com/hare-sched/hare"

// addLevels fills in the part of a model that deals with levels, if there is any.
func (m *Model) addLevels() {
	if !m.Instance.UsesLevels() {
		return
	}
	m.Levels = hare.NewLevels(&m.Instance.Cluster)
	for i := range m.Jobs {
		spec, j := &m.Instance.Jobs[i], &m.Jobs[i]
		j.Within, _ = m.Levels.Index(spec.Within)
		if j.Shapes == nil {
			m.addLevelsOf(j, spec.Shape(0), j.Modes)
		}
		for s := range j.Shapes {
			m.addLevelsOf(j, spec.Shapes[j.Shapes[s].Index], j.Shapes[s].Modes)
		}
	}
}

// addLevelsOf fills in the times by spread of the modes of a job in one of its shapes.
func (m *Model) addLevelsOf(j *Job, spec hare.Shape, modes []Mode) {
	for x := range modes {
		md := &modes[x]
		p, _ := spec.Profile(m.Types[md.Type])
		if p.SyncAt == nil {
			continue
		}
		md.SyncByLevel = make([]int64, j.Within+1)
		for level := range md.SyncByLevel {
			md.SyncByLevel[level] = m.Levels.SyncUs(&p, level)
		}
		md.SyncUs = md.SyncByLevel[j.Within]
	}
}

// LevelModes returns the levels of the modes of a job on a type, ascending: Within, and each
// finer level with a shorter time than the next coarser one. Where levels do not matter, this
// is level 0 alone.
func (j *Job) LevelModes(md Mode) []int {
	var levels []int
	for level := range len(md.SyncByLevel) - 1 {
		if md.SyncByLevel[level] < md.SyncByLevel[level+1] {
			levels = append(levels, level)
		}
	}
	return append(levels, j.Within)
}

// LevelRoom returns how many tasks of a job find room at the same time in one domain of a level
// on GPUs of some types together, at most, where only work that runs at time 0 holds anything.
// m.Placed must be set; where m.Levels is nil, all nodes are one domain. It takes O(S log S) for
// S steps, reservations and ends of running work of all kinds.
func (m *Model) LevelRoom(j *Job, types []int, level int) int64 {
	domains := map[int]map[int64]int64{} // the changes of the room in each domain
	for i := range m.Kinds {
		kind := &m.Kinds[i]
		at, count := 0, int64(len(kind.Nodes))
		switch {
		case m.Levels == nil:
		case level == 0:
			at, count = i, 1 // the nodes of a kind are alike
		default:
			at = m.Levels.Domain(level, int(kind.Nodes[0]))
		}
		if domains[at] == nil {
			domains[at] = map[int64]int64{0: 0}
		}
		for _, k := range types {
			var before int64
			for _, step := range m.KindRoom(kind, j, k) {
				domains[at][step.FromUs] += (step.Count - before) * count
				before = step.Count
			}
		}
	}
	most := int64(0)
	for _, changes := range domains {
		most = max(most, MostRoom(sumChanges(changes)))
	}
	return most
}
