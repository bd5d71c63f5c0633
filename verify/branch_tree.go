package verify

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// rigidJob is a job of a tree; length has its time by type of the tree, and 0 where no GPUs of the
// type ever suffice.
type rigidJob struct {
	spec   *hare.Job
	length []int64
	kinds  []int // types with a length
	twin   int   // the nearest equal job of lower index; −1 for none
}

// branchTree is a tree whose nodes are visited one after another.
type branchTree struct {
	kinds  []string        // sorted
	supply []*typeCapacity // by type: GPUs in service, which only become more
	jobs   []rigidJob
	later  []int          // by job: the nearest equal job of higher index; −1 for none
	byID   map[string]int // the index of a job
	last   int64          // by this time all jobs have started in some optimal schedule
	pairs  int64          // of a job and a type on which it may run
	prices []treePrices
	spent  *big.Int // work of the leaves so far
}

// treePrices are the prices of leaves.
type treePrices struct {
	*priceCertificate
	own  map[int]*priceCurve // what a job pays on a type, by job · types + type
	rows []int64             // how many own has, by type
	work *big.Int            // of a leaf
}

// starts are the first and last start of each job on each type that are still possible: entry job ·
// types + type. A pair with first > last has none.
type starts struct{ first, last []int64 }

func (st *starts) clone() *starts {
	return &starts{slices.Clone(st.first), slices.Clone(st.last)}
}

// addKinds adds the types of the cluster, sorted, and returns the most changes of a type.
func (t *branchTree) addKinds(s *supply) (most int) {
	for kind := range s.capacities {
		t.kinds = append(t.kinds, kind)
	}
	slices.Sort(t.kinds)
	for _, kind := range t.kinds {
		tc := s.capacities[kind].changes()
		t.supply = append(t.supply, tc)
		most = max(most, len(tc.at))
	}
	return most
}

// ownPrices reads the prices of single jobs.
func (t *branchTree) ownPrices(set *hare.PriceSet) (map[int]*priceCurve, error) {
	if len(set.Jobs) == 0 {
		return nil, nil
	}
	own := map[int]*priceCurve{}
	dearest, most := int64(0), int64(len(set.Jobs))
	for _, p := range set.Jobs {
		i, known := t.byID[p.Job]
		k, ok := slices.BinarySearch(t.kinds, p.Type)
		if !known || !ok {
			return nil, fmt.Errorf("there is no job %.40q or no type %.40q", p.Job, p.Type)
		}
		if err := fitCells(p.Nanos, len(set.GridUs)-1); err != nil {
			return nil, fmt.Errorf("job %.40q on %.40q has %w", p.Job, p.Type, err)
		}
		if own[i*len(t.kinds)+k] != nil {
			return nil, fmt.Errorf("job %.40q on %.40q appears twice", p.Job, p.Type)
		}
		own[i*len(t.kinds)+k] = newPriceCurve(set.GridUs, p.Nanos)
		dearest = max(dearest, slices.Max(p.Nanos))
	}
	for _, p := range set.Prices {
		dearest = max(dearest, slices.Max(p.Nanos))
	}
	for _, p := range set.Sizes {
		dearest = max(dearest, slices.Max(p.Nanos))
	}
	for k := range t.supply {
		most = max(most, int64(len(set.Jobs))+t.supply[k].most)
	}
	if times(dearest, most).Cmp(big.NewInt(1<<62)) > 0 {
		return nil, errors.New("prices of jobs are too large")
	}
	return own, nil
}
