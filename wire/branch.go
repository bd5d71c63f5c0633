package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// priceSetDoc is a set of prices of a certificate while it is read or written.
type priceSetDoc struct {
	*hare.PriceSet
}

var priceSetTable = NewTable("PriceSet", "PriceSet are prices on a grid of their own, for leaves of a tree.",
	NewField("grid_us", integers,
		func(r *Reader, v *priceSetDoc) error { return r.column(&v.GridUs, hare.MaxExact) },
		func(b []byte, v *priceSetDoc) []byte { return appendColumn(b, v.GridUs) }).Needed().
		About("grid_us are the ends of the price cells, from 0."),
	NewField("prices", MapOf(integers),
		func(r *Reader, v *priceSetDoc) error { return readTypePrices(r, &v.Prices) },
		func(b []byte, v *priceSetDoc) []byte {
			if len(v.Prices) == 0 {
				return b
			}
			return appendTypePrices(b, v.Prices)
		}).
		About("prices by GPU type, as in the certificate. Left out: 0."),
	NewField("sizes", MapOf(MapOf(integers)),
		func(r *Reader, v *priceSetDoc) error {
			_, err := readSizes(r, &v.Sizes)
			return err
		},
		func(b []byte, v *priceSetDoc) []byte { return appendSizes(b, v.Sizes) }).
		About("sizes by GPU type and number of tasks, as in the certificate."),
	NewField("jobs", MapOf(MapOf(integers)), readJobPrices, appendJobPrices).
		About("jobs by job and GPU type: what the job pays for all of its GPUs together, one a cell, in place of prices "+
			"and sizes."),
).Check(func(v *priceSetDoc, _ Members, _ *hare.InvalidErrors) {
	sortPrices(v.Prices, v.Sizes)
	slices.SortFunc(v.Jobs, func(a, b hare.JobPrices) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.Type, b.Type))
	})
})

func readJobPrices(r *Reader, v *priceSetDoc) error {
	return r.Object(nil, func(job string) (bool, error) {
		return true, r.Object(nil, func(kind string) (bool, error) {
			p := hare.JobPrices{Job: job, Type: kind}
			err := r.column(&p.Nanos, hare.MaxExact)
			v.Jobs = append(v.Jobs, p)
			return true, err
		})
	})
}

// appendJobPrices appends an object {job: {type: prices}}; the prices must be sorted.
func appendJobPrices(b []byte, v *priceSetDoc) []byte {
	for i, p := range v.Jobs {
		switch {
		case i == 0:
			b = append(b, '{')
		case p.Job != v.Jobs[i-1].Job:
			b = append(b, `},`...)
		default:
			b = append(b, ',')
		}
		if i == 0 || p.Job != v.Jobs[i-1].Job {
			b = append(AppendString(b, p.Job), `:{`...)
		}
		b = append(AppendString(b, p.Type), ':')
		b = appendColumn(b, p.Nanos)
	}
	if len(v.Jobs) > 0 {
		b = append(b, `}}`...)
	}
	return b
}

// branchDoc is a node of a tree while it is read or written.
type branchDoc struct {
	*hare.BranchNode
}

var branchTable = NewTable("BranchNode",
	"BranchNode is a node of a tree, in preorder. A node with job and type is followed by the schedules with the job "+
		"on the type and by those without; one with job and start_us by those in which the job starts by then and by "+
		"those in which it starts later; one with prices is a leaf.",
	String("job", func(v *branchDoc) *string { return &v.Job }).About("job by which the schedules are divided."),
	String("type", func(v *branchDoc) *string { return &v.Type }).
		About("type on which the job is in the first part and not in the second."),
	NewField("start_us", Schema{"type": "integer", "format": "int64", "minimum": 0},
		func(r *Reader, v *branchDoc) error { return r.Integer(&v.StartUs, 0, hare.MaxExact) },
		func(b []byte, v *branchDoc) []byte {
			if v.Job == "" || v.Type != "" {
				return b
			}
			return appendInt(b, v.StartUs)
		}).
		About("start_us is the latest start in the first part."),
	NewField("prices", Schema{"type": "integer", "format": "int64", "minimum": 0},
		func(r *Reader, v *branchDoc) error {
			number := int64(0)
			err := r.Integer(&number, 0, hare.MaxBranchNodes)
			v.Prices = int(number)
			return err
		},
		func(b []byte, v *branchDoc) []byte {
			if v.Job != "" {
				return b
			}
			return appendInt(b, int64(v.Prices))
		}).
		About("prices of a leaf: 0 are those of the certificate itself, n is price set n, counted from 1."),
).Check(func(v *branchDoc, has Members, found *hare.InvalidErrors) {
	form := []bool{has.Has("job"), has.Has("type"), has.Has("start_us"), has.Has("prices")}
	for _, f := range [][]bool{{true, true, false, false}, {true, false, true, false}, {false, false, false, true}} {
		if slices.Equal(f, form) {
			refuseEmpty(v, has, found)
			return
		}
	}
	found.Add("", "bad_node", `is not a node: give "job" and "type", "job" and "start_us", or "prices"`)
})

// refuseEmpty refuses names without a character: a node without a job is a leaf, and one without a type is
// divided by start.
func refuseEmpty(v *branchDoc, has Members, found *hare.InvalidErrors) {
	if has.Has("job") && v.Job == "" {
		found.Add("/job", "bad_name", "must not be empty")
	}
	if has.Has("type") && v.Type == "" {
		found.Add("/type", "bad_name", "must not be empty")
	}
}

// readList reads an array of objects of a table.
func readList[T, D any](r *Reader, to *[]T, t *Table[D], doc func(*T) *D) error {
	return r.Array(func(int) error {
		var x T
		err := t.Read(r, doc(&x))
		*to = append(*to, x)
		return err
	})
}

// treeFields are the fields of certificates of the method branch alone.
var treeFields = []Field[certificateDoc]{
	NewField("price_sets", ListOf(RefTo(priceSetTable)),
		func(r *Reader, v *certificateDoc) error {
			return readList(r, &v.PriceSets, priceSetTable, func(s *hare.PriceSet) *priceSetDoc { return &priceSetDoc{s} })
		},
		func(b []byte, v *certificateDoc) []byte {
			if v.Method != hare.MethodBranch || len(v.PriceSets) == 0 {
				return b
			}
			return appendList(b, v.PriceSets, func(b []byte, s hare.PriceSet) []byte {
				return priceSetTable.Append(b, &priceSetDoc{&s})
			})
		}).
		About("price_sets are further prices, which leaves of the tree name by number, from 1."),
	NewField("tree", ListOf(RefTo(branchTable)),
		func(r *Reader, v *certificateDoc) error {
			return readList(r, &v.Tree, branchTable, func(n *hare.BranchNode) *branchDoc { return &branchDoc{n} })
		},
		func(b []byte, v *certificateDoc) []byte {
			if v.Method != hare.MethodBranch {
				return b
			}
			return appendList(b, v.Tree, func(b []byte, n hare.BranchNode) []byte {
				return branchTable.Append(b, &branchDoc{&n})
			})
		}).
		About("tree covers all schedules; each leaf has the prices that bound its schedules."),
}
