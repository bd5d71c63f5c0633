package estimate

import (
	"slices"
)

// The limits of a SizeForest, which keep it quick enough for an online session.
const (
	forestRows  = 512 // jobs that ended, of which a forest is grown
	firstForest = 8   // jobs that must have ended before the first one
	forestTrees = 16
	forestLeaf  = 2
	maxNames    = 16 // names of labels
)

// SizeForest predicts sizes of jobs by a random forest of the last jobs that ended. Its columns are the
// labels of a job, such as user and name, the numbers that the caller gives of it, and the mean logarithm of
// the sizes of the jobs with the same labels that ended before. The forest is grown again when a quarter more
// jobs have ended. A job none of whose labels is in the forest gets the median of all; so does one without
// labels. The zero value knows nothing.
//
// After A-SRPT (arXiv 2501.05563), which predicts iterations by a random forest of recurring jobs; its columns
// and its parameters are our choices. Growing takes O(trees · columns · n log² n) for n ≤ 640 jobs, some
// hundredths of a second; otherwise a job that ends or is predicted costs O(n) moves of numbers.
type SizeForest struct {
	rows   []SizeRow
	grown  int // how many of the rows the forest was grown on
	forest *Forest
	names  []string // the columns of labels
	codes  map[Label]float64
	row    []float64
	past   map[uint64]pastSizes
	sorted []int64 // the logarithms of all sizes
}

// SizeRow is a job that ended.
type SizeRow struct {
	Labels  []Label `json:"labels,omitempty"`
	Numbers []int64 `json:"numbers"`
	Size    int64   `json:"size"` // a logarithm
	Past    int64   `json:"past"` // the mean logarithm of like jobs before, or −1
}

// pastSizes are sums over the jobs with the same labels.
type pastSizes struct{ n, log int64 }

func (ps pastSizes) mean() int64 {
	if ps.n == 0 {
		return -1
	}
	return ps.log / ps.n
}

// SizeForestSnapshot is the state of a SizeForest.
type SizeForestSnapshot struct {
	Rows  []SizeRow `json:"rows"`
	Grown int       `json:"grown"`
}

// Ended takes note of a job that ended. All jobs have as many numbers.
func (sf *SizeForest) Ended(labels []Label, numbers []int64, size int64) {
	key := keyOf(labels).key
	r := SizeRow{Labels: labels, Numbers: numbers, Size: Log2(max(1, size)), Past: sf.past[key].mean()}
	sf.rows = append(sf.rows, r)
	sf.count(&r)
	if n := len(sf.rows); n >= firstForest && n >= sf.grown+max(firstForest, sf.grown/4) {
		if extra := n - forestRows; extra > 0 {
			sf.rows = slices.Clone(sf.rows[extra:])
			sf.past, sf.sorted = nil, nil
			for i := range sf.rows {
				sf.count(&sf.rows[i])
			}
		}
		sf.grow(len(sf.rows))
	}
}

// count adds a row to the sums.
func (sf *SizeForest) count(r *SizeRow) {
	if sf.past == nil {
		sf.past = map[uint64]pastSizes{}
	}
	key := keyOf(r.Labels).key
	p := sf.past[key]
	sf.past[key] = pastSizes{p.n + 1, p.log + r.Size}
	at, _ := slices.BinarySearch(sf.sorted, r.Size)
	sf.sorted = slices.Insert(sf.sorted, at, r.Size)
}

// grow grows the forest on the first n rows.
func (sf *SizeForest) grow(n int) {
	sf.grown, sf.codes, sf.names = n, map[Label]float64{}, nil
	for i := range sf.rows[:n] {
		for _, l := range sf.rows[i].Labels {
			if at, known := slices.BinarySearch(sf.names, l.Name); !known && len(sf.names) < maxNames {
				sf.names = slices.Insert(sf.names, at, l.Name)
			}
			if _, known := sf.codes[l]; !known {
				sf.codes[l] = float64(len(sf.codes))
			}
		}
	}
	width := len(sf.names) + len(sf.rows[0].Numbers) + 1
	t := &Table{Columns: make([][]float64, width), Categories: make([]bool, width)}
	for c := range sf.names {
		t.Categories[c] = true
	}
	for i := range sf.rows[:n] {
		r := &sf.rows[i]
		for c, v := range sf.columns(r.Labels, r.Numbers, r.Past) {
			t.Columns[c] = append(t.Columns[c], v)
		}
		t.Target = append(t.Target, float64(r.Size))
	}
	sf.forest = newForest(t, ForestConfig{Trees: forestTrees, MinLeaf: forestLeaf, Seed: uint64(n)})
}

// columns are valid until the next call.
func (sf *SizeForest) columns(labels []Label, numbers []int64, past int64) []float64 {
	row := sf.row[:0]
	for _, name := range sf.names {
		code := -1.0
		if i := slices.IndexFunc(labels, func(l Label) bool { return l.Name == name }); i >= 0 {
			if c, known := sf.codes[labels[i]]; known {
				code = c
			}
		}
		row = append(row, code)
	}
	for _, n := range numbers {
		row = append(row, float64(n))
	}
	sf.row = append(row, float64(past))
	return sf.row
}

// Median is the size that half of the jobs exceed that ended, 0 where none has.
func (sf *SizeForest) Median() int64 {
	if len(sf.sorted) == 0 {
		return 0
	}
	return Exp2(sf.sorted[len(sf.sorted)/2])
}

// Predict is the size of a job, 0 where no job has ended.
func (sf *SizeForest) Predict(labels []Label, numbers []int64) int64 {
	seen := func(l Label) bool { _, known := sf.codes[l]; return known }
	if sf.forest == nil || !slices.ContainsFunc(labels, seen) {
		return sf.Median()
	}
	past := sf.past[keyOf(labels).key].mean()
	return Exp2(int64(sf.forest.Predict(sf.columns(labels, numbers, past))))
}

// Snapshot is the state, which shares memory with the SizeForest.
func (sf *SizeForest) Snapshot() *SizeForestSnapshot {
	return &SizeForestSnapshot{Rows: sf.rows, Grown: sf.grown}
}

// Restore fills an empty SizeForest and grows its forest again; false says that the snapshot contradicts itself.
func (sf *SizeForest) Restore(s *SizeForestSnapshot) bool {
	if s.Grown < 0 || s.Grown > len(s.Rows) || len(s.Rows) > 2*forestRows {
		return false
	}
	for i := range s.Rows {
		if r := &s.Rows[i]; r.Size < 0 || r.Size > maxLog || r.Past < -1 || r.Past > maxLog ||
			len(r.Numbers) != len(s.Rows[0].Numbers) {
			return false
		}
	}
	sf.rows = s.Rows
	for i := range sf.rows {
		sf.count(&sf.rows[i])
	}
	if s.Grown > 0 {
		sf.grow(s.Grown)
	}
	return true
}
