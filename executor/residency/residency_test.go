package residency_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare/executor/residency"
)

// play runs tasks through an empty memory; each Run is told all tasks after its own.
func play(t testing.TB, tasks []residency.Model, capacity int64, p residency.Policy) residency.Counts {
	t.Helper()
	c, err := residency.New(capacity, p)
	if err != nil {
		t.Fatal(err)
	}
	device := &device{t: t, capacity: capacity, copies: map[string]residency.Model{}, sizes: map[string]int64{}}
	for _, m := range tasks {
		device.sizes[m.Job] = m.Bytes
	}
	for i, m := range tasks {
		actions, err := c.Run(m, tasks[i+1:])
		if err != nil {
			t.Fatal(err)
		}
		device.do(m, actions)
	}
	return c.Counts()
}

// device does what a Cache says and fails the test where that is not possible.
type device struct {
	t        testing.TB
	capacity int64
	copies   map[string]residency.Model
	sizes    map[string]int64
}

func (d *device) do(running residency.Model, actions []residency.Action) {
	d.t.Helper()
	for _, a := range actions {
		_, held := d.copies[a.Job]
		switch a.Type {
		case residency.Evict:
			if !held {
				d.t.Fatalf("evicts %s, which is not in memory", a.Job)
			}
			delete(d.copies, a.Job)
		case residency.Load, residency.Prefetch:
			if held {
				d.t.Fatalf("%ss %s, which is in memory", a.Type, a.Job)
			}
			d.copies[a.Job] = residency.Model{Job: a.Job, Version: a.Version, Bytes: d.sizes[a.Job]}
		case residency.Refresh:
			if !held {
				d.t.Fatalf("refreshes %s, which is not in memory", a.Job)
			}
			m := d.copies[a.Job]
			m.Version = a.Version
			d.copies[a.Job] = m
		}
		var used int64
		for _, m := range d.copies {
			used += m.Bytes
		}
		if used > d.capacity {
			d.t.Fatalf("%d of %d bytes are used after %+v", used, d.capacity, a)
		}
	}
	if m, ok := d.copies[running.Job]; !ok || m.Version != running.Version {
		d.t.Fatalf("the task of %s version %d runs with %+v", running.Job, running.Version, m)
	}
}

// sizes are those of the models of small tests.
var sizes = map[string]int64{"a": 3, "b": 1, "c": 2, "d": 2, "e": 4}

func models(jobs string) []residency.Model {
	tasks := make([]residency.Model, 0, len(jobs))
	for _, r := range jobs {
		tasks = append(tasks, residency.Model{Job: string(r), Bytes: sizes[string(r)]})
	}
	return tasks
}

// search returns the least number of copies by going through all that a memory may hold
// before each task, with copies that no task needs yet among it.
func search(tasks []residency.Model, capacity int64) int64 {
	var names []string
	for _, m := range tasks {
		if !slices.Contains(names, m.Job) {
			names = append(names, m.Job)
		}
	}
	const unreachable = 1 << 30
	least := make([]int64, 1<<len(names))
	for set := range least {
		least[set] = unreachable
	}
	least[0] = 0
	for _, m := range tasks {
		then := make([]int64, len(least))
		for set := range then {
			then[set] = unreachable
			var used int64
			for i, name := range names {
				if set>>i&1 == 1 {
					used += sizes[name]
				}
			}
			if used > capacity || set>>slices.Index(names, m.Job)&1 == 0 {
				continue
			}
			for before, copies := range least {
				for rest := set &^ before; rest != 0; rest &= rest - 1 {
					copies++
				}
				then[set] = min(then[set], copies)
			}
		}
		least = then
	}
	return slices.Min(least)
}

func TestOptimumIsThatOfASearchOverAllSets(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		capacity := int64(4 + rng.IntN(7))
		tasks := models(word(rng, 1+rng.IntN(12)))
		got, err := leastCopies(tasks, capacity)
		if err != nil {
			t.Fatal(err)
		}
		if want := search(tasks, capacity); got != want {
			t.Fatalf("seed %d: the least is %d, the search finds %d: %v in %d", seed, got, want, tasks, capacity)
		}
		for _, p := range []residency.Policy{residency.Hare{Models: 2}, residency.LRU{}, belady{}} {
			if c := play(t, tasks, capacity, p); c.Misses+c.Prefetches < got {
				t.Fatalf("seed %d: %T copies %+v, the optimum is %d", seed, p, c, got)
			}
		}
	}
}

func word(rng *rand.Rand, length int) string {
	w := make([]byte, length)
	for i := range w {
		w[i] = "abcde"[rng.IntN(5)]
	}
	return string(w)
}

// Belady's rule is the optimum where all models have one size.
func TestBeladyIsTheOptimumForEqualSizes(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tasks := models(word(rng, 40))
		for i := range tasks {
			tasks[i].Bytes = 1
		}
		for capacity := int64(1); capacity <= 5; capacity++ {
			c, err := residency.New(capacity, belady{})
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range tasks {
				if _, err := c.Run(m, tasks[i+1:]); err != nil {
					t.Fatal(err)
				}
			}
			want, err := leastCopies(tasks, capacity)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Counts().Misses; got != want {
				t.Fatalf("seed %d, room for %d: Belady copies %d times, the optimum is %d", seed, capacity, got, want)
			}
		}
	}
}

// A prefetch evicts what no next task needs, then what is needed last, and never the running model.
func TestPrefetchSparesTheRunningAndTheNext(t *testing.T) {
	c, err := residency.New(6, residency.Hare{Models: 2})
	if err != nil {
		t.Fatal(err)
	}
	run := func(job string, next string, want ...residency.Action) {
		t.Helper()
		got, err := c.Run(models(job)[0], models(next))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s before %s: %+v, not %+v", job, next, got, want)
		}
	}
	act := func(how residency.ActionType, job string) residency.Action {
		return residency.Action{Type: how, Job: job}
	}
	run("a", "bc", act(residency.Load, "a"), act(residency.Prefetch, "b"))
	run("b", "ca", act(residency.Prefetch, "c")) // 3 + 1 + 2 bytes
	// The model of e takes 4 bytes. No next task needs b, and e is needed before a.
	run("c", "ea", act(residency.Evict, "b"), act(residency.Evict, "a"), act(residency.Prefetch, "e"))
	run("e", "ac") // a takes 3 bytes: it does not fit beside e
	run("a", "ca", act(residency.Evict, "e"), act(residency.Load, "a"))
	if c.UsedBytes() != 5 {
		t.Errorf("%d bytes are used by %v", c.UsedBytes(), c.Resident())
	}
}

// A copy of another version is replaced in its own memory, which is no miss.
func TestAnotherVersionIsCopiedIntoTheSameMemory(t *testing.T) {
	c, err := residency.New(6, residency.Hare{})
	if err != nil {
		t.Fatal(err)
	}
	m := residency.Model{Job: "a", Version: 1, Bytes: 3}
	must := func(a []residency.Action, err error) []residency.Action {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	must(c.Run(m, nil))
	m.Version = 2
	if got := must(c.Run(m, nil)); len(got) != 1 || got[0].Type != residency.Refresh || got[0].Version != 2 {
		t.Errorf("version 2 after 1: %+v", got)
	}
	c.Changed("a", 3)
	other := residency.Model{Job: "e", Bytes: 4}
	if got := must(c.Run(other, nil)); len(got) != 2 || !got[0].WriteBack || got[0].Version != 3 {
		t.Errorf("a changed copy leaves without write-back: %+v", got)
	}
	c.Committed("e", 1)
	if got := must(c.Run(m, nil)); len(got) != 2 || got[0].WriteBack {
		t.Errorf("a committed copy is written back: %+v", got)
	}
	m.Bytes, m.Version = 5, 4
	if got := must(c.Run(m, nil)); len(got) != 2 || got[0].Type != residency.Evict {
		t.Errorf("a model of another size: %+v", got)
	}
	c.Forget("a")
	if c.UsedBytes() != 0 {
		t.Errorf("%d bytes are used when all is forgotten", c.UsedBytes())
	}
	must(c.Run(m, nil))
	c.Lost()
	if got := must(c.Run(m, nil)); len(got) != 1 || got[0].Type != residency.Load {
		t.Errorf("after all was lost: %+v", got)
	}
	want := residency.Counts{Tasks: 7, Hits: 1, Misses: 6, Refreshes: 1, Evictions: 3, CopiedBytes: 3 + 3 + 4 + 3 + 5*3}
	if got := c.Counts(); got != want {
		t.Errorf("counts %+v, not %+v", got, want)
	}
}

func TestMakeRoomKeepsOwnAndNextModels(t *testing.T) {
	c, err := residency.New(10, residency.Hare{Models: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models("abcd") {
		if _, err := c.Run(m, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := c.MakeRoom("d", models("ba"))
	if want := []string{"c", "a"}; len(got) != 2 || got[0].Job != want[0] || got[1].Job != want[1] {
		t.Errorf("%+v", got)
	}
	if again := c.MakeRoom("d", models("ba")); again != nil {
		t.Errorf("there is nothing more to evict: %+v", again)
	}
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	if _, err := residency.New(0, residency.LRU{}); err == nil {
		t.Error("no memory is accepted")
	}
	c, err := residency.New(3, residency.LRU{})
	if err != nil {
		t.Fatal(err)
	}
	var big *residency.TooBigError
	if _, err := c.Run(models("e")[0], nil); !errors.As(err, &big) || big.Capacity != 3 {
		t.Errorf("a model larger than the memory: %v", err)
	}
	if _, err := c.Run(residency.Model{Job: "x"}, nil); err == nil {
		t.Error("a model without bytes is accepted")
	}
	if _, err := leastCopies(models("e"), 3); !errors.As(err, &big) {
		t.Errorf("leastCopies: %v", err)
	}
	if c.Counts() != (residency.Counts{}) {
		t.Errorf("%+v", c.Counts())
	}
}

// The memory has room for two of three models. The task of b begins when its model is there
// already, because it was copied during the task of a.
func ExampleCache_Run() {
	c, err := residency.New(1000, residency.Hare{Models: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := residency.Model{Job: "a", Bytes: 400}
	b := residency.Model{Job: "b", Bytes: 500}
	d := residency.Model{Job: "d", Bytes: 300}
	for _, step := range [][]residency.Model{{a, b, a}, {b, a, d}, {a, d}, {d}} {
		actions, err := c.Run(step[0], step[1:])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(step[0].Job, ":")
		for _, do := range actions {
			fmt.Print(" ", do.Type, " ", do.Job)
		}
		fmt.Println()
	}
	// Output:
	// a: load a prefetch b
	// b:
	// a: evict b prefetch d
	// d:
}
