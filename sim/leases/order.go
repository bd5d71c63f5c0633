package leases

// before is the order in which units are chosen: by falling priority, deficit and
// share, then by entry. No two units are equal.
func (pk *pick) before(y *pick) bool {
	if pk.priority != y.priority {
		return pk.priority > y.priority
	}
	return pk.tied(y)
}

func (pk *pick) tied(y *pick) bool {
	if pk.deficitS != y.deficitS {
		return pk.deficitS > y.deficitS
	}
	if pk.share != y.share {
		return pk.share > y.share
	}
	return pk.entry < y.entry
}

// picks is a binary heap of units that may be chosen, the next one first. A type takes
// about a quarter of the units, and sorting all of them took a third of a round's time.
type picks []pick

func (ps picks) init() {
	for i := len(ps)/2 - 1; i >= 0; i-- {
		ps.down(i)
	}
}

// pop removes the next unit.
func (ps *picks) pop() pick {
	s := *ps
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*ps = s[:last]
	(*ps).down(0)
	return x
}

func (ps picks) down(i int) {
	if i >= len(ps) {
		return
	}
	x := ps[i]
	for {
		next := 2*i + 1
		if next >= len(ps) {
			break
		}
		if next+1 < len(ps) && ps[next+1].before(&ps[next]) {
			next++
		}
		if !ps[next].before(&x) {
			break
		}
		ps[i] = ps[next]
		i = next
	}
	ps[i] = x
}

func falling(x, y float64) int {
	if x > y {
		return -1
	}
	return 1
}
