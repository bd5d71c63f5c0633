package plot

import (
	"strings"

	hare "github.com/hare-sched/hare"
)

// addReservations finds which nodes each reservation has. It takes O(nodes · reservations).
func (s *scene) addReservations() {
	if len(s.nodes) == 0 {
		return
	}
	held := map[int][]int32{} // by node
	for i := range s.inst.Cluster.Reservations {
		r := &s.inst.Cluster.Reservations[i]
		if r.FromUs >= s.endUs {
			continue
		}
		for n := range s.inst.Cluster.Nodes {
			if r.Holds(&s.inst.Cluster.Nodes[n]) {
				held[n] = append(held[n], int32(len(s.reserved)))
			}
		}
		s.reserved = append(s.reserved, reservation{r.FromUs, r.UntilUs, admitted(r)})
	}
	for i := range s.nodes {
		s.nodes[i].reserved = held[s.lanes[s.nodes[i].first].node]
	}
}

// admitted says in words for whom a reservation is.
func admitted(r *hare.Reservation) string {
	var parts []string
	if len(r.Users) > 0 {
		parts = append(parts, someOf(r.Users))
	}
	switch {
	case len(r.Jobs) == 1:
		parts = append(parts, "job "+r.Jobs[0])
	case len(r.Jobs) > 1:
		parts = append(parts, "jobs "+someOf(r.Jobs))
	}
	if parts == nil {
		return "reserved, for no job"
	}
	return "reserved for " + strings.Join(parts, " and ")
}

// addBands adds the reservations of the drawn nodes. Each reservation is named once for each
// type, in the first row of its nodes that has room beside the bars.
func (c *chart) addBands(s *scene, nodes []nodeRows, scale float64) {
	type key struct {
		typ int
		at  int32
	}
	named := map[key]bool{}
	for i := range nodes {
		n := &nodes[i]
		top, bottom := &c.rows[n.first], &c.rows[n.first+n.lanes-1]
		for _, at := range n.reserved {
			r := &s.reserved[at]
			x0, x1 := float64(r.fromUs)*scale, float64(min(r.untilUs, s.endUs))*scale
			b := band{rect: rect{c.plot.x + x0, top.y, x1 - x0, bottom.y + bottom.h - top.y}, who: r.who}
			if k := (key{n.typ, at}); !named[k] {
				b.label, named[k] = c.bandLabel(c.rows[n.first:n.first+n.lanes], x0, x1, r.who)
			}
			c.bands = append(c.bands, b)
		}
	}
}

// ground is the place behind the label of a band, which is kept free of lines.
func (b *band) ground(ruler *textMeasurer) rect {
	return rect{b.label.x - 3, b.label.y - 9, ruler.width(laneFace, b.label.s) + 6, 12}
}

// bandLabel places a label between x0 and x1 where bars leave room: in one of some rows or, where
// rows are low, on all of them together.
func (c *chart) bandLabel(rows []row, x0, x1 float64, who string) (text, bool) {
	step := 1
	if rows[0].h < labelledRow {
		step = len(rows)
	}
	for _, short := range []string{who, "reserved"} {
		width := c.ruler.width(laneFace, short) + 10
		for i := 0; i < len(rows); i += step {
			low, high := x0, x1
			for k := i; k < i+step; k++ {
				low, high = rows[k].widestGap(low, high)
			}
			top, bottom := &rows[i], &rows[i+step-1]
			if h := bottom.y + bottom.h - top.y; h >= labelledRow && high-low >= width {
				return text{x: c.plot.x + low + 5, y: top.y + h/2 + 3.6, s: short, face: laneFace, ink: inkReserved}, true
			}
		}
	}
	return text{}, false
}

// widestGap returns the widest part of x0 to x1 without bars.
func (r *row) widestGap(x0, x1 float64) (low, high float64) {
	free := x0
	low, high = x0, x0
	for k := 0; k <= len(r.bars); k++ {
		end := x1
		if k < len(r.bars) {
			end = min(x1, r.bars[k].x0)
		}
		if end-free > high-low {
			low, high = free, end
		}
		if k < len(r.bars) {
			free = max(free, r.bars[k].x1)
		}
	}
	return low, high
}
