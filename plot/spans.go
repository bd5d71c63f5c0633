package plot

import "encoding/binary"

// spanKind is what spans have in common. Times are multiples of the unit of a page.
type spanKind struct {
	job                  int32
	rounds, period, hold int64
	sync, tasks, setup   int64
	shape                int32
	spread               int
}

// encodeSpans returns the spans of lanes as unsigned varints: the number of kinds; the fields of each kind in order,
// the spread counted from 1 (0: none); then for each span its kind, the time from the end of the one before on its
// lane to its start, zigzag, and its first round.
func encodeSpans(lanes []*lane, unit int64) []byte {
	kinds := map[spanKind]uint64{}
	var head, spans []byte
	for _, l := range lanes {
		free := int64(0)
		for i := range l.spans {
			sp := &l.spans[i]
			k := spanKind{sp.job, sp.rounds, sp.periodUs / unit, sp.holdUs / unit, sp.syncUs / unit, sp.tasks,
				sp.setupUs / unit, sp.shape, sp.spread}
			n, known := kinds[k]
			if !known {
				n = uint64(len(kinds))
				kinds[k] = n
				for _, v := range []int64{int64(k.job), k.rounds, k.period, k.hold, k.sync, k.tasks, k.setup, int64(k.shape),
					int64(k.spread) + 1} {
					head = binary.AppendUvarint(head, uint64(v))
				}
			}
			start := sp.startUs / unit
			spans = binary.AppendUvarint(spans, n)
			spans = binary.AppendVarint(spans, start-free)
			spans = binary.AppendUvarint(spans, uint64(sp.round))
			free = start + (k.rounds-1)*k.period + k.hold
		}
	}
	return append(append(binary.AppendUvarint(nil, uint64(len(kinds))), head...), spans...)
}
