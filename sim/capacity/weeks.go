package capacity

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

const dayUs = 86400 * int64(1e6)

// warmUpDays are drawn before each week and simulated with it, so that a week does not begin with an empty queue.
// Their jobs do not count.
const warmUpDays = 2

// sampler draws weeks from a history: a block bootstrap (Künsch 1989) whose blocks are days. Each day of a week is a
// day of the history of the same kind, with all jobs that were submitted on it at their times of day. Growth adds
// blocks of one user and one day each, or leaves them out.
type sampler struct {
	inst   *hare.Instance
	origin time.Time
	days   int
	growth float64
	likes  []capacitydoc.Like // examples that grow otherwise
	blocks [][]block          // by day of the history
	of     []map[who]int      // by day and user, the index of the user's block
	alike  [7][]int           // by day of a week, the days of the history that may stand for it
	active [7]map[who][]int   // by day of a week and user, those of them on which the user submitted jobs
	lost   lost
	// cluster is that of the end of the history, in service all the time.
	cluster hare.Cluster
}

// who submitted jobs: a user, with the number of the example that names the jobs, or -1.
type who struct {
	user string
	like int
}

// block are the jobs that somebody submitted on a day, in the order of submission.
type block struct {
	who
	jobs []int
}

// lost counts what drawn weeks do not have.
type lost struct{ running, after, nodes, busy int }

// newSampler makes the blocks of a history; origin is the date of its time 0, or the zero time.
func newSampler(inst *hare.Instance, origin time.Time, days int, growth float64, likes []capacitydoc.Like) (*sampler,
	error) {
	s := &sampler{inst: inst, origin: origin, days: days, growth: growth, likes: likes}
	last, jobs := int64(0), 0
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Running() || j.FirstRound() > 0 {
			s.lost.running++
			continue
		}
		if len(j.After) > 0 {
			s.lost.after++
		}
		jobs++
		last = max(last, j.ReleaseUs)
	}
	if jobs == 0 {
		return nil, fault("/instance/jobs", "no_jobs", "no job is submitted in it, so that there is nothing to draw weeks "+
			"from")
	}
	n := int((last+s.midnightUs())/dayUs) + 1
	if n < days {
		return nil, fault("/days", "out_of_range", "the history has jobs of %s, and weeks of %d days are to be drawn: "+
			"give a longer history, or at most %d", words.Count(n, "day"), days, n)
	}
	s.blocks, s.of = make([][]block, n), make([]map[who]int, n)
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		if j.Running() || j.FirstRound() > 0 {
			continue
		}
		day := (j.ReleaseUs + s.midnightUs()) / dayUs
		by := who{like: exampleOf(likes, j)}
		if len(j.Users) > 0 {
			by.user = j.Users[0]
		}
		if s.of[day] == nil {
			s.of[day] = map[who]int{}
		}
		at, ok := s.of[day][by]
		if !ok {
			at = len(s.blocks[day])
			s.of[day][by] = at
			s.blocks[day] = append(s.blocks[day], block{who: by})
		}
		s.blocks[day][at].jobs = append(s.blocks[day][at].jobs, i)
	}
	for d := range s.blocks {
		for _, b := range s.blocks[d] {
			slices.SortStableFunc(b.jobs, func(x, y int) int {
				return cmp.Compare(inst.Jobs[x].ReleaseUs, inst.Jobs[y].ReleaseUs)
			})
		}
	}
	s.match()
	s.serve(last)
	return s, nil
}

// serve makes the cluster of the drawn weeks: the nodes that are in service when the history ends, at lastUs.
func (s *sampler) serve(lastUs int64) {
	s.cluster = s.inst.Cluster
	s.cluster.Nodes = nil
	for _, n := range s.inst.Cluster.Nodes {
		if len(n.Windows) > 0 && n.Windows[len(n.Windows)-1].EndUs <= lastUs {
			s.lost.nodes++
			continue
		}
		if len(n.Busy) > 0 {
			s.lost.busy++
		}
		n.Windows, n.Busy = nil, nil
		s.cluster.Nodes = append(s.cluster.Nodes, n)
	}
}

// sameDays is from how many days of one day of the week on a day is drawn from these alone.
const sameDays = 4

// match finds for each day of the week the days of the history that may stand for it: those of its name where there
// are enough, otherwise working days for working days and weekends for weekends, and any day without dates.
func (s *sampler) match() {
	for d := range 7 {
		var all, same, kind []int
		for x := range s.blocks {
			all = append(all, x)
			if s.origin.IsZero() {
				continue
			}
			on, want := s.weekday(x), s.weekdayOf(d)
			if on == want {
				same = append(same, x)
			}
			if weekend(on) == weekend(want) {
				kind = append(kind, x)
			}
		}
		switch {
		case len(same) >= sameDays:
			s.alike[d] = same
		case len(kind) > 0:
			s.alike[d] = kind
		default:
			s.alike[d] = all
		}
		s.active[d] = map[who][]int{}
		for _, x := range s.alike[d] {
			for _, b := range s.blocks[x] {
				s.active[d][b.who] = append(s.active[d][b.who], x)
			}
		}
	}
}

func weekend(d time.Weekday) bool { return d == time.Saturday || d == time.Sunday }

func (s *sampler) zone() *time.Location {
	if s.origin.IsZero() {
		return time.UTC
	}
	return s.origin.Location()
}

// midnightUs is how long after midnight the history begins.
func (s *sampler) midnightUs() int64 {
	if s.origin.IsZero() {
		return 0
	}
	h, m, sec := s.origin.Clock()
	return int64(h*3600+m*60+sec) * 1e6
}

// weekday is the day of the week of a day of the history.
func (s *sampler) weekday(day int) time.Weekday {
	return time.Weekday((int(s.origin.Weekday()) + day) % 7)
}

// end is the midnight after the history.
func (s *sampler) end() time.Time {
	y, m, d := s.origin.Date()
	return time.Date(y, m, d+len(s.blocks), 0, 0, 0, 0, s.zone())
}

// firstDay is the day on which drawn weeks begin: that after the history.
func (s *sampler) firstDay() time.Weekday { return s.end().Weekday() }

// weekdayOf is the day of the week of day d of a drawn week.
func (s *sampler) weekdayOf(d int) time.Weekday { return time.Weekday((int(s.firstDay()) + d) % 7) }

// begins says when drawn weeks begin.
func (s *sampler) begins() string {
	if s.origin.IsZero() {
		return "day 0"
	}
	return s.end().Format("Mon 2006-01-02")
}

// drawn is a week that was drawn. Its jobs count from number first on; those before are of the days of warm-up.
type drawn struct {
	jobs    []hare.Job
	first   int
	beginUs int64 // when the days that count begin
}

// week draws week number w. The same number gives the same week, whatever else is drawn. It takes O(jobs log jobs).
func (s *sampler) week(seed uint64, w int) *drawn {
	r := rand.New(rand.NewPCG(seed, uint64(w)))
	out := &drawn{beginUs: warmUpDays * dayUs}
	type copied struct {
		job  int
		us   int64
		name string
	}
	var all []copied
	for d := -warmUpDays; d < s.days; d++ {
		from := s.alike[((d%7)+7)%7]
		day := from[r.IntN(len(from))]
		shift := int64(d+warmUpDays-day)*dayUs + s.midnightUs()
		add := func(b block, shift int64, extra int) {
			for _, j := range b.jobs {
				name := strconv.Itoa(d + warmUpDays)
				if extra > 0 {
					name += "+" + strconv.Itoa(extra)
				}
				all = append(all, copied{j, s.inst.Jobs[j].ReleaseUs + shift, s.inst.Jobs[j].ID + "@" + name})
			}
		}
		for _, b := range s.blocks[day] {
			rest := s.growth
			if b.like >= 0 {
				rest = s.likes[b.like].Factor
			}
			for extra := 0; rest > 0; extra++ {
				keep := rest >= 1 || r.Float64() < rest
				rest--
				if !keep {
					break
				}
				if extra == 0 {
					add(b, shift, 0)
					continue
				}
				// What grows is drawn by user: what the user did on another such day.
				days := s.active[((d%7)+7)%7][b.who]
				other := days[r.IntN(len(days))]
				add(s.blocks[other][s.of[other][b.who]], int64(d+warmUpDays-other)*dayUs+s.midnightUs(), extra)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b copied) int { return cmp.Compare(a.us, b.us) })
	seen := map[string]int{}
	for _, c := range all {
		j := s.inst.Jobs[c.job]
		// Blocks of one user that growth draws twice for a day have jobs of one name.
		if seen[c.name]++; seen[c.name] > 1 {
			c.name += "." + strconv.Itoa(seen[c.name])
		}
		j.ID, j.After, j.Progress = c.name, nil, nil
		if j.DeadlineUs > 0 {
			j.DeadlineUs = max(1, j.DeadlineUs+c.us-j.ReleaseUs)
		}
		if j.ReleaseUs = c.us; c.us < out.beginUs {
			out.first++
		}
		out.jobs = append(out.jobs, j)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
