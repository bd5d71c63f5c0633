package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// quotaUse is a quota and what its jobs hold.
type quotaUse struct {
	hare.Quota
	counts []int8 // by type: 1 counts, −1 does not, 0 is not known yet
	held   int64  // GPUs of the types that count
	kept   int64  // GPUs that are kept for some job
}

// closed is kept where nothing may start.
const closed = math.MaxInt64 / 2

// SetQuotas says which quotas there are, before the first shape is added; typeName names the
// type of a number.
func (ns *Nodes) SetQuotas(quotas []hare.Quota, typeName func(gpuType int) string) {
	ns.typeName = typeName
	for _, q := range quotas {
		ns.quotas = append(ns.quotas, quotaUse{Quota: q})
	}
}

// HasQuotas reports whether there are quotas.
func (ns *Nodes) HasQuotas() bool { return len(ns.quotas) > 0 }

// quotasOf are the quotas that count jobs of some users.
func (ns *Nodes) quotasOf(users []string) (of []int32) {
	for i := range ns.quotas {
		if _, found := slices.BinarySearch(users, ns.quotas[i].User); found {
			of = append(of, int32(i))
		}
	}
	return of
}

// counts reports whether a quota counts GPUs of a type.
func (ns *Nodes) counts(q int32, gpuType int) bool {
	x := &ns.quotas[q]
	if x.Types == nil {
		return true
	}
	for len(x.counts) <= gpuType {
		x.counts = append(x.counts, 0)
	}
	if x.counts[gpuType] == 0 {
		x.counts[gpuType] = -1
		if _, found := slices.BinarySearch(x.Types, ns.typeName(gpuType)); found {
			x.counts[gpuType] = 1
		}
	}
	return x.counts[gpuType] > 0
}

// left is how many GPUs of a quota nobody holds, and nothing keeps.
func (qu *quotaUse) left() int64 { return max(0, qu.GPUs-qu.held-qu.kept) }

// QuotaRoom is for how many tasks of a shape the quotas on a type have room now.
func (ns *Nodes) QuotaRoom(s Shape, gpuType int) int64 {
	sh, room := &ns.shapes[s], int64(math.MaxInt64)
	for _, q := range sh.quotas {
		if ns.counts(q, gpuType) {
			room = min(room, ns.quotas[q].left()/sh.gpus)
		}
	}
	return room
}

// quotaLimit is QuotaRoom if nothing were held.
func (ns *Nodes) quotaLimit(s Shape, gpuType int) int64 {
	sh, room := &ns.shapes[s], int64(math.MaxInt64)
	for _, q := range sh.quotas {
		if ns.counts(q, gpuType) {
			room = min(room, ns.quotas[q].GPUs/sh.gpus)
		}
	}
	return room
}

// together is the least of a figure of the quotas of a shape that count all of some types, in
// tasks.
func (ns *Nodes) together(s Shape, types []int, figure func(*quotaUse) int64) int64 {
	sh, room := &ns.shapes[s], int64(math.MaxInt64)
	for _, q := range sh.quotas {
		if !slices.ContainsFunc(types, func(k int) bool { return !ns.counts(q, k) }) {
			room = min(room, figure(&ns.quotas[q])/sh.gpus)
		}
	}
	return room
}

// QuotaRoomTogether is for how many tasks of a shape on several types the quotas have room now, by
// those of one type and those that count all of the types.
func (ns *Nodes) QuotaRoomTogether(s Shape, types []int) (sum int64) {
	for _, k := range types {
		sum = min(math.MaxInt64/2, sum+min(math.MaxInt64/2, ns.QuotaRoom(s, k)))
	}
	return min(sum, ns.together(s, types, (*quotaUse).left))
}

// Lacking are the quotas on a type that have no room for some tasks of a shape.
func (ns *Nodes) Lacking(s Shape, gpuType int, tasks int64) (lacking []int32) {
	sh := &ns.shapes[s]
	for _, q := range sh.quotas {
		if ns.counts(q, gpuType) && ns.quotas[q].left()/sh.gpus < tasks {
			lacking = append(lacking, q)
		}
	}
	return lacking
}

// Quotas are those that count tasks of a shape on a type.
func (ns *Nodes) Quotas(s Shape, gpuType int) (all []int32) {
	for _, q := range ns.shapes[s].quotas {
		if ns.counts(q, gpuType) {
			all = append(all, q)
		}
	}
	return all
}

// QuotaLeft is how many GPUs of a quota are left.
func (ns *Nodes) QuotaLeft(q int32) int64 { return ns.quotas[q].left() }

// QuotaText says for people what a quota allows and what is held of it.
func (ns *Nodes) QuotaText(q int32) string {
	x := &ns.quotas[q]
	of := ""
	if x.Types != nil {
		of = " of type " + strings.Join(x.Types, ", ")
	}
	return fmt.Sprintf("The jobs of %q hold %d of at most %d GPUs%s", x.User, x.held, x.GPUs, of)
}

// Exceeded reports whether more is held than some quota allows that counts tasks of a shape on a type:
// by work that ran before, or before the quota was set.
func (ns *Nodes) Exceeded(s Shape, gpuType int) bool {
	return slices.ContainsFunc(ns.shapes[s].quotas, func(q int32) bool {
		return ns.counts(q, gpuType) && ns.quotas[q].held > ns.quotas[q].GPUs
	})
}

// KeepQuotas keeps GPUs for tasks of a shape in its quotas that count one of some types, so that
// nothing else takes them before OpenQuotas.
func (ns *Nodes) KeepQuotas(s Shape, types []int, tasks int64) {
	sh := &ns.shapes[s]
	for _, q := range sh.quotas {
		if slices.ContainsFunc(types, func(k int) bool { return ns.counts(q, k) }) {
			ns.quotas[q].kept = min(closed, ns.quotas[q].kept+tasks*sh.gpus)
		}
	}
}

// CloseQuota lets nothing that a quota counts start before OpenQuotas.
func (ns *Nodes) CloseQuota(q int32) { ns.quotas[q].kept = closed }

// OpenQuotas ends what KeepQuotas and CloseQuota began.
func (ns *Nodes) OpenQuotas() {
	for i := range ns.quotas {
		ns.quotas[i].kept = 0
	}
}

// HoldQuota adds what tasks of a shape on a type hold of quotas; a negative number gives it back.
func (ns *Nodes) HoldQuota(s Shape, gpuType int, tasks int64) {
	sh := &ns.shapes[s]
	for _, q := range sh.quotas {
		if ns.counts(q, gpuType) {
			ns.quotas[q].held += tasks * sh.gpus
		}
	}
}
