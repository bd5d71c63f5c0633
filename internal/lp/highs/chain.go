//go:build highs && (linux || darwin) && (amd64 || arm64)

package highs

import (
	"errors"
	"slices"
)

// Chain is a model that HiGHS keeps from solve to solve, with the basis of the last one: a model that differs in few
// rows and bounds then takes a fraction of the iterations. The same calls give the same results.
type Chain struct {
	l     *library
	model uintptr
	last  Model // its columns, without rows
	rows  int
	warm  bool // whether there is a basis to go on from
}

// devex is the value of simplex_dual_edge_weight_strategy for weights that are approximate, and so cost little where
// few iterations follow on a large basis.
const devex = 1

func (m *Model) columns() Model {
	return Model{Maximize: m.Maximize, Cost: m.Cost, ColLower: m.ColLower, ColUpper: m.ColUpper}
}

// Begin makes a model for a chain; the caller closes it.
func Begin(m Model) (*Chain, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	model, err := l.pass(m)
	if err != nil {
		return nil, err
	}
	c := &Chain{l: l, model: model, last: m.columns(), rows: len(m.RowLower)}
	if err := check([]step{{"weights", l.setInt(model, "simplex_dual_edge_weight_strategy", devex)}}); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Extend gives the columns the costs and bounds of m, which has the same columns, and adds the rows of m. After an
// error the chain must not be used any more.
func (c *Chain) Extend(m Model) error {
	if len(m.Cost) != len(c.last.Cost) || m.Maximize != c.last.Maximize {
		return errors.New("highs: a chain has other columns or another sense")
	}
	n := int32(len(m.Cost))
	var steps []step
	if !slices.Equal(m.Cost, c.last.Cost) {
		steps = append(steps, step{"costs", c.l.changeCosts(c.model, 0, n-1, m.Cost)})
	}
	if !slices.Equal(m.ColLower, c.last.ColLower) || !slices.Equal(m.ColUpper, c.last.ColUpper) {
		steps = append(steps, step{"bounds", c.l.boundCols(c.model, 0, n-1, m.ColLower, m.ColUpper)})
	}
	if len(m.RowLower) > 0 {
		steps = append(steps, step{"rows", c.l.add(c.model, m)})
	}
	c.last = m.columns()
	c.rows += len(m.RowLower)
	return check(steps)
}

// Solve solves the model from the basis of the solve before it, and from none if that finds no optimum. It returns a
// *StatusError if there is no optimum.
func (c *Chain) Solve() (*Result, error) {
	r, err := c.l.solve(c.model, len(c.last.Cost), c.rows)
	if err != nil && c.warm {
		if err := check([]step{{"clear", c.l.clear(c.model)}}); err != nil {
			return nil, err
		}
		r, err = c.l.solve(c.model, len(c.last.Cost), c.rows)
	}
	c.warm = true
	return r, err
}

// Close frees the model.
func (c *Chain) Close() { c.l.destroy(c.model) }
