package history

import "slices"

// overUs is how long after its limit a job that still runs cannot be: Slurm lets jobs go on for some minutes.
const overUs = 24 * 3600 * 1e6

// runsNoMore says why such a job is left out.
const runsNoMore = "accounting believes that the job still runs, past its limit or on GPUs that others have had " +
	"since: left out (sacctmgr show runawayjobs)"

// findRunaways finds jobs that have ended although accounting believes that they run: their record was lost. They are
// a day past their limit, or jobs that began later have had their GPUs. It takes O(n log n) for n jobs.
func (b *builder) findRunaways() {
	b.runaway = map[int]bool{}
	if b.log.Source != "slurm" {
		return
	}
	gpus := make(map[string]int64, len(b.nodes))
	for i := range b.nodes {
		for _, g := range b.nodes[i].GPUs {
			gpus[b.nodes[i].Name] += int64(g.Count)
		}
	}
	open := map[string][]int{} // running jobs by node
	for i := range b.log.Jobs {
		j := &b.log.Jobs[i]
		if j.State != Running || j.EndUs > 0 || j.StartUs == 0 || j.confirmed {
			continue
		}
		if j.LimitUs > 0 && !j.suspended && b.log.NowUs > j.StartUs+j.LimitUs+overUs {
			b.runaway[i] = true
			continue
		}
		for _, h := range j.On {
			open[h.Node] = append(open[h.Node], i)
		}
	}
	if len(open) == 0 {
		return
	}
	edges := map[string][]edge{} // of jobs that have ended, on nodes where jobs run
	for i := range b.log.Jobs {
		j := &b.log.Jobs[i]
		for _, h := range j.On {
			if j.EndUs > j.StartUs && j.StartUs > 0 && j.PartMicro == 0 && !h.Assumed && len(open[h.Node]) > 0 {
				edges[h.Node] = append(edges[h.Node], edge{j.StartUs, h.GPUs}, edge{j.EndUs, -h.GPUs})
			}
		}
	}
	for node, list := range edges {
		for _, i := range open[node] {
			j := &b.log.Jobs[i]
			at := slices.IndexFunc(j.On, func(h Held) bool { return h.Node == node })
			own := j.On[at].GPUs
			if j.On[at].Assumed {
				own = 1
			}
			b.runaway[i] = b.runaway[i] || gpus[node] > 0 && mostHeld(list, j.StartUs)+own > gpus[node]
		}
	}
}
