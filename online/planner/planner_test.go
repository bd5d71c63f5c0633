package planner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/planner"
)

// random draws a question of a few types, GPUs and jobs, some of which have no room.
func random(rng *rand.Rand) *planner.Question {
	q := &planner.Question{Seed: rng.Int64N(100)}
	for t := range 1 + rng.IntN(3) {
		q.Types = append(q.Types, fmt.Sprint("T", t))
		free := make([]int64, rng.IntN(5))
		for i := range free {
			free[i] = max(0, rng.Int64N(200)-100) * 1e5
		}
		q.FreeUs = append(q.FreeUs, free)
	}
	for range rng.IntN(8) {
		j := planner.Job{WeightMicro: rng.Int64N(3) * 1e6, Tasks: 1 + rng.Int64N(5), Sync: hare.Gang,
			Mix: rng.IntN(3) == 0, ReadyUs: max(0, rng.Int64N(20)-10) * 1e6, Rounds: rng.Int64N(20)}
		if rng.IntN(4) == 0 {
			j.Sync, j.Mix = hare.Rigid, false
		}
		for t := range q.Types {
			if rng.IntN(4) > 0 {
				j.On = append(j.On, planner.Mode{Type: t, DurationUs: 1 + rng.Int64N(5e6)})
			}
		}
		if rng.IntN(2) == 0 {
			j.Before, j.BeforeUs = []int{rng.IntN(len(q.Types))}, rng.Int64N(1e7)-5e6
		}
		q.Jobs = append(q.Jobs, j)
	}
	return q
}

// A plan has every round of every job for which there is room once, in order, on types
// that the job may use and that are wide enough, never before the job is ready, and no
// more GPUs of a type at a time than there are.
func TestPlansAreFeasible(t *testing.T) {
	planned, without := 0, 0
	for seed := range uint64(400) {
		q := random(rand.New(rand.NewPCG(seed, 1)))
		p, err := planner.Make(t.Context(), q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(p.Rows) != len(q.Jobs) {
			t.Fatalf("seed %d: rows of %d jobs, want %d", seed, len(p.Rows), len(q.Jobs))
		}
		for i, rows := range p.Rows {
			j := &q.Jobs[i]
			if (len(rows) > 0) != hasRoom(q, j) {
				t.Fatalf("seed %d, job %d: %d rows", seed, i, len(rows))
			}
			if len(rows) == 0 {
				without++
				continue
			}
			planned++
			checkRows(t, q, j, rows)
		}
		checkCapacity(t, q, p)
	}
	if planned < 500 || without < 100 {
		t.Errorf("%d jobs were planned and %d not: the questions show little", planned, without)
	}
}

func hasRoom(q *planner.Question, j *planner.Job) bool {
	widest, all := 0, 0
	for _, md := range j.On {
		n := len(q.FreeUs[md.Type])
		widest, all = max(widest, n), all+n
	}
	return j.Rounds > 0 && (int64(widest) >= j.Tasks || j.Mix && int64(all) >= j.Tasks)
}

func checkRows(t *testing.T, q *planner.Question, j *planner.Job, rows []planner.Row) {
	t.Helper()
	round, readyUs := int64(0), j.ReadyUs
	for _, row := range rows {
		longUs, width := int64(0), int64(0)
		for _, c := range row.Types {
			width += c.Count
			long := int64(-1)
			for _, md := range j.On {
				if md.Type == c.Type {
					long = md.DurationUs
				}
			}
			if long < 0 || c.Count > int64(len(q.FreeUs[c.Type])) {
				t.Fatalf("%+v is not for %+v", row, j)
			}
			longUs = max(longUs, long)
		}
		if row.Round != round || row.Rounds < 1 || row.StartUs < readyUs || width != j.Tasks || row.PeriodUs < longUs ||
			len(row.Types) > 1 && !j.Mix {
			t.Fatalf("%+v does not follow round %d at %d of %+v", row, round, readyUs, j)
		}
		round, readyUs = row.Round+row.Rounds, row.StartUs+(row.Rounds-1)*row.PeriodUs+longUs
	}
	if round != j.Rounds {
		t.Fatalf("%d rounds, want %d", round, j.Rounds)
	}
}

// checkCapacity counts the GPUs of each type at the starts of rounds, where a row holds
// its GPUs from its first round to its last.
func checkCapacity(t *testing.T, q *planner.Question, p *planner.Plan) {
	t.Helper()
	for _, rows := range p.Rows {
		for _, at := range rows {
			used := make([]int64, len(q.Types))
			for i, others := range p.Rows {
				for _, row := range others {
					for _, c := range row.Types {
						long := int64(0)
						for _, md := range q.Jobs[i].On {
							if md.Type == c.Type {
								long = md.DurationUs
							}
						}
						since := at.StartUs - row.StartUs
						if since >= 0 && since/max(1, row.PeriodUs) < row.Rounds && since%max(1, row.PeriodUs) < long {
							used[c.Type] += c.Count
						}
					}
				}
			}
			for k, n := range used {
				free := int64(0)
				for _, f := range q.FreeUs[k] {
					if f <= at.StartUs {
						free++
					}
				}
				if n > free {
					t.Fatalf("%d GPUs of type %d at %d, and %d are free", n, k, at.StartUs, free)
				}
			}
		}
	}
}

// The same question has the same plan.
func TestPlansRepeat(t *testing.T) {
	for seed := range uint64(50) {
		q := random(rand.New(rand.NewPCG(seed, 2)))
		var texts [2]string
		for i := range texts {
			p, err := planner.Make(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(p.Rows)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(b)
		}
		if texts[0] != texts[1] {
			t.Fatalf("seed %d: %s, then %s", seed, texts[0], texts[1])
		}
	}
}

func ExampleMake() {
	// One V100 is free, another in 5 s. A short job and a long one wait for one each; the
	// third takes both.
	on := []planner.Mode{{Type: 0, DurationUs: 10e6}}
	p, err := planner.Make(context.Background(), &planner.Question{
		Types: []string{"V100"}, FreeUs: [][]int64{{0, 5e6}},
		Jobs: []planner.Job{
			{WeightMicro: 1e6, Tasks: 1, Sync: hare.Gang, Rounds: 9, On: on},
			{WeightMicro: 1e6, Tasks: 1, Sync: hare.Gang, Rounds: 1, On: on},
			{WeightMicro: 1e6, Tasks: 2, Sync: hare.Gang, Rounds: 2, On: on},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, rows := range p.Rows {
		for _, row := range rows {
			fmt.Printf("job %d: %d rounds on %d GPUs at %d s\n", i, row.Rounds, row.Types[0].Count, row.StartUs/1e6)
		}
	}
	// Output:
	// job 0: 9 rounds on 1 GPUs at 30 s
	// job 1: 1 rounds on 1 GPUs at 0 s
	// job 2: 2 rounds on 2 GPUs at 10 s
}
