package experiment

import (
	"math/rand/v2"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/trace"
)

// disturbed makes a case of each standard instance with arrivals and each of xs. with
// changes the case so that the simulation differs from what policies plan for.
func (s set) disturbed(sync string, xs []float64, with func(c *Case, x float64) error) ([]Case, error) {
	base, err := s.sweep("arrivals over 1200 s", []float64{0},
		func(float64) setting { return setting{arrivals: arriving(), sync: sync} })
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, x := range xs {
		for _, c := range base {
			c.X, c.Sim.Seed = x, c.Seed
			if err := with(&c, x); err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// profileErrors uses the standard instances with arrivals, seeds 1 to 5. Policies see times
// with errors of at most 0 to 40 %, which are drawn independently for each time.
var profileErrors = Info{
	Name:  "profile-errors",
	Title: "Weighted JCT when profiles are wrong",
	Text: "200 relaxed jobs that arrive over 1200 s, on 160 GPUs. Each compute and synchronisation time that a " +
		"policy sees is wrong by a factor drawn uniformly from 1 ± the error; tasks take the true times.",
	Published: "Hare (HPDC 2022) examines errors of ±20 %; the parts of the paper that we have give no figure.",
	axis:      "error of the profiles, ± %",
	schemes:   six,
	cases: func(s set) ([]Case, error) {
		return s.disturbed("", []float64{0, 10, 20, 30, 40}, func(c *Case, x float64) error {
			if x > 0 {
				c.Estimated = estimated(c.Inst, x/100, c.Seed)
			}
			return nil
		})
	},
}

// switchCost uses the standard instances with arrivals, seeds 1 to 5. A GPU loses 0 to 10 s
// when it begins a task of another job than before. The value 0.1 was added after the first
// run, in which a loss of 1 s already cost as much as plans gain.
var switchCost = Info{
	Name:  "switch",
	Title: "Weighted JCT against the cost of switching jobs",
	Text: "200 relaxed jobs that arrive over 1200 s, on 160 GPUs. A GPU loses the time on the axis whenever it " +
		"begins a task of another job than its last one. No policy takes this time into account. The bound is that " +
		"of the instance without it, which holds with it as well.",
	Published: "Hare (HPDC 2022) leaves switches, at less than 5 % of a task's time, out of its " +
		"model, and examines costs of 0 to 10 s; the parts of the paper that we have give no figure.",
	axis:    "seconds lost in a switch",
	schemes: six,
	cases: func(s set) ([]Case, error) {
		return s.disturbed("", []float64{0, 0.1, 1, 2, 5, 10}, func(c *Case, x float64) error {
			c.Sim.SwitchUs = int64(x * 1e6)
			return nil
		})
	},
}

// faults uses the standard instances with arrivals, seeds 1 to 5. Each GPU fails 0 to 3
// times an hour, and a repair takes 5 minutes in the mean. hare_offline was taken out after
// the first run: the policy never makes a new plan, and the old plan waits for some failed
// GPU nearly all the time (docs/lab/experiments.md).
var faults = Info{
	Name:  "faults",
	Title: "Weighted JCT when GPUs fail",
	Text: "200 relaxed jobs that arrive over 1200 s, on 160 GPUs. The GPUs fail at random, as often as the " +
		"axis states, and return after 5 minutes on average. The work of a GPU that fails is lost and repeated. The " +
		"bound is that of the instance without failures, which holds with them as well.",
	Published: "None.",
	axis:      "failures of a GPU an hour",
	schemes:   named("hlas", "sched_allox", "sched_homo", "srtf", "gavel_fifo"),
	cases: func(s set) ([]Case, error) {
		return s.disturbed("", []float64{0, 0.25, 1, 3}, func(c *Case, x float64) error {
			if x > 0 {
				c.Sim.FaultRate = failures(x)
			}
			return nil
		})
	},
}

// stragglers uses the standard instances with arrivals, seeds 1 to 5, with relaxed and with
// gang jobs. The compute time of each task varies by none, half or all of the variation that
// was measured for training steps in Alibaba's cluster.
var stragglers = Info{
	Name:  "stragglers",
	Title: "Mean JCT when tasks take longer than others, relaxed and in gangs",
	Text: "200 jobs that arrive over 1200 s, on 160 GPUs. Compute times are multiplied by 1 + x (f − 1), f " +
		"drawn from the step times of Alibaba's cluster over their medians. Such runs are not schedules of the " +
		"instance, so they have no bound and are not verified.",
	Published: "None: HPDC 2022 assumes times that do not change.",
	axis:      "share x of the measured variation, %",
	measures:  []measure{meanJCT, weighted},
	schemes:   named("hare_offline", "hlas", "srtf"),
	cases: func(s set) ([]Case, error) {
		times, err := trace.MiniBatchTimes()
		if err != nil {
			return nil, err
		}
		var all []Case
		for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang} {
			cases, err := s.disturbed(sync.String(), []float64{0, 50, 100}, func(c *Case, x float64) error {
				c.Variant = sync.String()
				if x > 0 {
					c.Sim.Stretch = &milder{times, x / 100}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			all = append(all, cases...)
		}
		return all, nil
	},
}

// milder draws factors whose deviation from 1 is a share of the deviation of another
// Stretch.
type milder struct {
	of    sim.Stretch
	share float64
}

// Draw implements sim.Stretch.
func (mi *milder) Draw(r *rand.Rand) float64 { return 1 + mi.share*(mi.of.Draw(r)-1) }

// disturbedStreams uses the standard instances with arrivals. The disturbances are those
// that the figures of rolling plans were first measured under.
var disturbedStreams = Info{
	Name:  "online-disturbed",
	Title: "Online policies when switches cost time, GPUs fail and profiles are wrong",
	Text: "200 jobs that arrive over 1200 s, on 160 GPUs: as gangs, undisturbed, with time lost in each switch, with " +
		"failures of each GPU (repaired after 5 minutes on average) and with profiles that are wrong by up to 20 %; " +
		"and the same jobs as rigid and as relaxed jobs. The bound is that of the undisturbed instance.",
	Published: "None: the policies are Hare's own.",
	schemes:   named("rolling", "hgittins", "srtf", "hlas", "fifo"),
	cases: func(s set) ([]Case, error) {
		var all []Case
		for _, d := range []struct {
			group, sync string
			with        func(*Case)
		}{
			{"gangs", "gang", func(*Case) {}},
			{"0.1 s a switch", "gang", func(c *Case) { c.Sim.SwitchUs = 1e5 }},
			{"10 s a switch", "gang", func(c *Case) { c.Sim.SwitchUs = 10e6 }},
			{"1 failure an hour", "gang", func(c *Case) { c.Sim.FaultRate = failures(1) }},
			{"3 failures an hour", "gang", func(c *Case) { c.Sim.FaultRate = failures(3) }},
			{"profiles ± 20 %", "gang", func(c *Case) { c.Estimated = estimated(c.Inst, 0.2, c.Seed) }},
			{"rigid jobs", "rigid", func(*Case) {}},
			{"relaxed jobs", "relaxed", func(*Case) {}},
		} {
			cases, err := s.disturbed(d.sync, []float64{0}, func(c *Case, _ float64) error {
				c.Group = d.group
				d.with(c)
				return nil
			})
			if err != nil {
				return nil, err
			}
			all = append(all, cases...)
		}
		return all, nil
	},
}

// failures is the rate at which each GPU fails x times an hour, for 5 minutes on average.
func failures(x float64) sim.FaultRate {
	return sim.FaultRate{GPUMeanUs: int64(3600e6 / x), GPURepairUs: 300e6}
}
