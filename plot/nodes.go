package plot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// rackLabels are the labels whose values group the rows of nodes where the cluster has no
// topology, coarse to fine. A label counts by the part of its name after the last slash, so that
// Kubernetes's topology.kubernetes.io/zone counts too.
var rackLabels = [...]string{"zone", "rack"}

// mostRacks is the number of levels by which the rows of nodes are grouped.
const mostRacks = 2

// racksOf returns the domains of each node, coarse to fine, by which the rows are grouped: the
// values of the labels of the topology, or of rackLabels. Levels that no node has are left out,
// and the coarsest of more than mostRacks levels are one, such as "e/r1".
func racksOf(c *hare.Cluster) [][]string {
	racks := make([][]string, len(c.Nodes))
	for _, label := range rackLevels(c) {
		values := make([]string, len(c.Nodes))
		found := false
		for i := range c.Nodes {
			for _, l := range c.Nodes[i].Labels {
				if l.Name == label || len(c.Topology) == 0 && l.Name[strings.LastIndexByte(l.Name, '/')+1:] == label {
					values[i], found = l.Value, true
					break
				}
			}
		}
		for i := range racks {
			if found {
				racks[i] = append(racks[i], values[i])
			}
		}
	}
	for i, values := range racks {
		if more := len(values) - mostRacks; more > 0 {
			racks[i] = append([]string{strings.Join(values[:more+1], "/")}, values[more+1:]...)
		}
	}
	return racks
}

func rackLevels(c *hare.Cluster) []string {
	if len(c.Topology) > 0 {
		return c.Topology
	}
	return rackLabels[:]
}

// gpuOrder returns the GPUs of a model in the order of the rows: by type and, where nodes
// matter, by rack and node. Racks come in the order of their first nodes.
func gpuOrder(m *model.Model, racks [][]string) []int {
	order := make([]int, len(m.GPUs))
	for i := range order {
		order[i] = i
	}
	rank := rackRanks(racks)
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := m.GPUs[a], m.GPUs[b]
		if racks == nil {
			return cmp.Compare(x.Type, y.Type)
		}
		return cmp.Or(cmp.Compare(x.Type, y.Type), slices.Compare(rank[x.Node], rank[y.Node]),
			cmp.Compare(x.Node, y.Node))
	})
	return order
}

// rackRanks numbers the domains of each node by the order of their first nodes.
func rackRanks(racks [][]string) [][]int {
	ranks := make([][]int, len(racks))
	known := map[string]int{}
	for i, values := range racks {
		at := ""
		for _, value := range values {
			at += strconv.Quote(value)
			if _, ok := known[at]; !ok {
				known[at] = len(known)
			}
			ranks[i] = append(ranks[i], known[at])
		}
	}
	return ranks
}

// addNode notes that the lane at is on a node.
func (s *scene) addNode(at int, name string, racks []string) {
	typ := s.lanes[at].typ
	if n := len(s.nodes); n > 0 && s.nodes[n-1].name == name && s.nodes[n-1].typ == typ {
		s.nodes[n-1].lanes++
		return
	}
	s.nodes = append(s.nodes, nodeRows{name: name, racks: racks, typ: typ, first: at, lanes: 1})
}

// sampleNodes returns the nodes that are drawn where only every stride-th is, at least one
// for each type. The fields first count the drawn lanes.
func (s *scene) sampleNodes(stride int) (nodes []nodeRows, lanes []*lane) {
	n, last := 0, -1
	for _, node := range s.nodes {
		if node.typ != last {
			n, last = 0, node.typ
		}
		if n%max(1, stride) == 0 {
			at := node.first
			node.first = len(lanes)
			nodes = append(nodes, node)
			for i := range node.lanes {
				lanes = append(lanes, &s.lanes[at+i])
			}
		}
		n++
	}
	return nodes, lanes
}

const (
	bracketWidth = 4.0
	bracketSpace = 12.0 // a bracket and the space around it
	nodeGap      = 2.0
	rackGap      = 6.0
	widestNode   = 110.0 // of the name of a node or rack, in pixels
)

// bracketColumn returns the width of the names of nodes, or of their racks; 0 means that no
// node has such a name.
func (c *chart) bracketColumn(nodes []nodeRows, name func(*nodeRows) string) float64 {
	widest := 0.0
	for i := range nodes {
		widest = max(widest, c.ruler.width(laneFace, c.ruler.fit(laneFace, name(&nodes[i]), widestNode)))
	}
	return widest
}

func nodeName(n *nodeRows) string { return n.name }

// rackName returns the function that names the rack of a node at a level.
func rackName(level int) func(*nodeRows) string {
	return func(n *nodeRows) string { return n.racks[level] }
}

// addBrackets adds the brackets of nodes or of racks, which end at x. A bracket joins nodes of
// one name that are together also at the coarser levels, of which there are coarser.
func (c *chart) addBrackets(nodes []nodeRows, name func(*nodeRows) string, coarser int, x float64) {
	for i := 0; i < len(nodes); {
		k := i + 1
		for k < len(nodes) && nodes[k].typ == nodes[i].typ && name(&nodes[k]) == name(&nodes[i]) &&
			slices.Equal(nodes[k].racks[:coarser], nodes[i].racks[:coarser]) {
			k++
		}
		top, bottom := &c.rows[nodes[i].first], &c.rows[nodes[k-1].first+nodes[k-1].lanes-1]
		b := bracket{x: x - bracketWidth, y: top.y, h: bottom.y + bottom.h - top.y}
		if b.h >= labelledRow {
			b.label = text{x: b.x - 3, y: b.y + b.h/2 + 3.6, s: c.ruler.fit(laneFace, name(&nodes[i]), widestNode),
				face: laneFace, ink: 1, end: true}
		}
		if name(&nodes[i]) != "" {
			c.brackets = append(c.brackets, b)
		}
		i = k
	}
}

// strokes returns the three lines of a bracket.
func (b *bracket) strokes() []rect {
	return []rect{
		{b.x, b.y, 1, b.h},
		{b.x, b.y, bracketWidth - 1, 1},
		{b.x, b.y + b.h - 1, bracketWidth - 1, 1},
	}
}

// joinBlocks joins the equal bars of one task on adjacent rows of a node to one block. The
// tasks of a job of g GPUs take g rows each.
func (c *chart) joinBlocks(s *scene, nodes []nodeRows) {
	for _, node := range nodes {
		end := node.first + node.lanes
		for i := node.first; i < end; i++ {
			bars := c.rows[i].bars
			for k := range bars {
				b := &bars[k]
				shape := s.inst.Jobs[b.job].Shape(int(b.shape))
				if g := shape.TaskGPUs(); g > 1 && b.rows == 0 {
					b.rows = 1
					for i+b.rows < end && int64(b.rows) < g && c.rows[i+b.rows].take(b) {
						b.rows++
					}
				}
			}
		}
	}
}

// take marks the bar of a row that is equal to b as a part of the block of b.
func (r *row) take(b *bar) bool {
	k, _ := slices.BinarySearchFunc(r.bars, b.x0, func(x bar, at float64) int { return cmp.Compare(x.x0, at) })
	for ; k < len(r.bars) && r.bars[k].x0 == b.x0; k++ {
		x := &r.bars[k]
		if x.rows == 0 && x.x1 == b.x1 && x.job == b.job && x.shape == b.shape && x.tone == b.tone {
			x.rows = inBlock
			return true
		}
	}
	return false
}

// block returns the top and the height of bar b of row i.
func (c *chart) block(i int, b *bar) (y, h float64) {
	top, bottom := &c.rows[i], &c.rows[i+max(1, b.rows)-1]
	in := top.inset()
	y, h = top.y+in, bottom.y+bottom.h-top.y-2*in
	if b.tone == setupTone {
		return y + (1-setupShare)/2*h, setupShare * h
	}
	return y, h
}

// addColumn makes room for the names and brackets of nodes or racks at the left of the rows
// and returns where the column ends.
func (c *chart) addColumn(left *float64, nodes []nodeRows, name func(*nodeRows) string) float64 {
	if widest := c.bracketColumn(nodes, name); widest > 0 {
		*left += widest + bracketSpace
	}
	return *left - (bracketSpace-bracketWidth)/2
}

// rowName is the label of the row of a GPU: the number of the GPU on its node where a
// bracket names the node.
func (s *scene) rowName(l *lane) string {
	if len(s.nodes) == 0 {
		return l.gpu
	}
	return l.gpu[strings.LastIndexByte(l.gpu, '/')+1:]
}
