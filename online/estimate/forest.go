package estimate

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// Table holds the columns of jobs that ended, and what a Forest is to predict of each.
type Table struct {
	// Columns have a value for each job. A column of categories has whole numbers that
	// stand for names and have no order.
	Columns    [][]float64
	Categories []bool // by column
	Target     []float64
}

// ForestConfig tunes NewForest. The zero value is good.
type ForestConfig struct {
	Trees   int // zero means 100
	MinLeaf int // the least jobs of a leaf; zero means 5
	// Columns is how many columns, drawn at random, each split looks at; zero means all.
	Columns int
	Seed    uint64
}

// Forest is a random forest of regression trees (Breiman 2001): each tree is grown on a
// bootstrap sample, and the prediction is the mean of the trees. Splits minimise the sum
// of squared errors. Categories are split in the order of their means, which is best
// (Fisher 1958). Products are rounded before they are added, so that all machines agree.
type Forest struct {
	trees      []tree
	categories []bool
	outOfBag   float64
}

// tree is a binary tree of nodes, the root first.
type tree []node

// node is a split where column ≥ 0: jobs with at most limit, or with a category in left,
// go to the next node, and the others to right.
type node struct {
	column int
	limit  float64
	left   map[float64]bool
	right  int
	mean   float64 // of the jobs of the node
}

// errTable says that a table has no jobs, or that its columns differ in length.
var errTable = errors.New("estimate: a table needs jobs, and a value of each in every column")

// NewForest grows a forest in O(trees · columns · n log² n) on average. The same table and
// seed give the same forest.
func NewForest(t *Table, cfg ForestConfig) (*Forest, error) {
	n := len(t.Target)
	if n == 0 || len(t.Columns) == 0 || len(t.Categories) != len(t.Columns) {
		return nil, errTable
	}
	for _, c := range t.Columns {
		if len(c) != n {
			return nil, errTable
		}
	}
	return newForest(t, cfg), nil
}

// newForest is NewForest of a table that is known to be whole.
func newForest(t *Table, cfg ForestConfig) *Forest {
	n := len(t.Target)
	if cfg.Trees == 0 {
		cfg.Trees = 100
	}
	if cfg.MinLeaf == 0 {
		cfg.MinLeaf = 5
	}
	if cfg.Columns == 0 || cfg.Columns > len(t.Columns) {
		cfg.Columns = len(t.Columns)
	}
	f := &Forest{categories: t.Categories}
	sums, votes := make([]float64, n), make([]int, n)
	row := make([]float64, len(t.Columns))
	for i := range cfg.Trees {
		g := grower{table: t, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
		g.times = make([]float64, n)
		for range n {
			g.times[g.rng.IntN(n)]++
		}
		var sample []int
		for j := range n {
			if g.times[j] > 0 {
				sample = append(sample, j)
			}
		}
		g.grow(sample)
		f.trees = append(f.trees, g.tree)
		for j := range n {
			if g.times[j] == 0 {
				sums[j] += g.tree.predict(f.categories, t.row(j, row))
				votes[j]++
			}
		}
	}
	judged := 0
	for j := range n {
		if votes[j] > 0 {
			off := sums[j]/float64(votes[j]) - t.Target[j]
			f.outOfBag += float64(off * off)
			judged++
		}
	}
	f.outOfBag /= float64(max(1, judged))
	return f
}

// OutOfBag is the mean squared error of each job under the trees that did not see it.
func (f *Forest) OutOfBag() float64 { return f.outOfBag }

// Predict is the prediction for a job with a value in each column.
func (f *Forest) Predict(row []float64) float64 {
	sum := 0.0
	for _, t := range f.trees {
		sum += t.predict(f.categories, row)
	}
	return sum / float64(len(f.trees))
}

func (t *Table) row(job int, to []float64) []float64 {
	for c := range t.Columns {
		to[c] = t.Columns[c][job]
	}
	return to
}

func (tr tree) predict(categories []bool, row []float64) float64 {
	at := 0
	for tr[at].column >= 0 {
		nd := &tr[at]
		left := row[nd.column] <= nd.limit
		if categories[nd.column] {
			left = nd.left[row[nd.column]]
		}
		if left {
			at++
		} else {
			at = nd.right
		}
	}
	return tr[at].mean
}

// grower grows one tree.
type grower struct {
	table  *Table
	cfg    ForestConfig
	rng    *rand.Rand
	tree   tree
	times  []float64 // how many times the bootstrap sample has each job
	ranked []ranked
}

// ranked is a job with the value by which it is sorted.
type ranked struct {
	value float64
	job   int
}

// split is the best split of a node so far.
type split struct {
	column int
	limit  float64
	left   map[float64]bool
	gain   float64
}

// grow adds the subtree of a sample of jobs. As in scikit-learn, MinLeaf counts a job that
// was drawn several times once.
func (g *grower) grow(sample []int) {
	sum, n := 0.0, 0.0
	for _, j := range sample {
		sum += float64(g.times[j] * g.table.Target[j])
		n += g.times[j]
	}
	at := len(g.tree)
	g.tree = append(g.tree, node{column: -1, mean: sum / n})
	if len(sample) < 2*g.cfg.MinLeaf {
		return
	}
	best := split{column: -1, gain: 1e-12 * math.Abs(sum)}
	for _, c := range g.rng.Perm(len(g.table.Columns))[:g.cfg.Columns] {
		g.try(c, sample, sum, n, &best)
	}
	if best.column < 0 {
		return
	}
	goesLeft := func(j int) bool {
		v := g.table.Columns[best.column][j]
		return best.left == nil && v <= best.limit || best.left[v]
	}
	var left, right []int
	for _, j := range sample {
		if goesLeft(j) {
			left = append(left, j)
		} else {
			right = append(right, j)
		}
	}
	g.tree[at] = node{column: best.column, limit: best.limit, left: best.left, mean: g.tree[at].mean}
	g.grow(left)
	g.tree[at].right = len(g.tree)
	g.grow(right)
}

// try looks for a better split by a column.
func (g *grower) try(column int, sample []int, sum, n float64, best *split) {
	g.ranked = g.ranked[:0]
	var means map[float64]float64
	if g.table.Categories[column] {
		means = g.means(column, sample)
	}
	values := g.table.Columns[column]
	for _, j := range sample {
		v := values[j]
		if means != nil {
			v = means[v]
		}
		g.ranked = append(g.ranked, ranked{v, j})
	}
	slices.SortFunc(g.ranked, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.value, b.value), a.job-b.job) })
	left, drawn := 0.0, 0.0
	before := float64(sum*sum) / n
	place := -1
	for i := range len(sample) - 1 {
		times := g.times[g.ranked[i].job]
		left += float64(times * g.table.Target[g.ranked[i].job])
		drawn += times
		if i+1 < g.cfg.MinLeaf || len(sample)-i-1 < g.cfg.MinLeaf || g.ranked[i].value == g.ranked[i+1].value {
			continue
		}
		right := sum - left
		if gain := float64(left*left)/drawn + float64(right*right)/(n-drawn) - before; gain > best.gain {
			*best = split{column: column, limit: (g.ranked[i].value + g.ranked[i+1].value) / 2, gain: gain}
			place = i
		}
	}
	if place >= 0 && means != nil {
		best.left = map[float64]bool{}
		for _, r := range g.ranked[:place+1] {
			best.left[values[r.job]] = true
		}
	}
}

// means are the mean targets of the categories of a column.
func (g *grower) means(column int, sample []int) map[float64]float64 {
	sums, counts := map[float64]float64{}, map[float64]float64{}
	for _, j := range sample {
		v := g.table.Columns[column][j]
		sums[v] += float64(g.times[j] * g.table.Target[j])
		counts[v] += g.times[j]
	}
	for v, n := range counts {
		sums[v] /= n
	}
	return sums
}
