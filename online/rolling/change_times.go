package rolling

import (
	"slices"
)

// maxChangeTimes limits the memory of a changeTimes.
const maxChangeTimes = 256

// changeTimes are the times of the changes that a plan has not seen: those of the changes
// from each Number on, up to the next one. Where there are many, the times of some are
// those of changes before them.
type changeTimes []changeTime

type changeTime struct {
	Number int64 `json:"number"`
	AtUs   int64 `json:"at_us"`
}

func (ct *changeTimes) add(number, atUs int64) {
	all := *ct
	if n := len(all); n > 0 && all[n-1].AtUs == atUs {
		return
	}
	if len(all) == maxChangeTimes {
		for i := range maxChangeTimes / 2 {
			all[i] = all[2*i]
		}
		all = all[:maxChangeTimes/2]
	}
	*ct = append(all, changeTime{number, atUs})
}

// see forgets all changes up to a number, of the last change at most.
func (ct *changeTimes) see(number, last int64) {
	all := *ct
	if number >= last {
		*ct = all[:0]
		return
	}
	from := 0
	for from+1 < len(all) && all[from+1].Number <= number+1 {
		from++
	}
	all = slices.Delete(all, 0, from)
	all[0].Number = number + 1
	*ct = all
}

// firstUs is the time of the first change; false where there is none.
func (ct changeTimes) firstUs() (int64, bool) {
	if len(ct) == 0 {
		return 0, false
	}
	return ct[0].AtUs, true
}

// valid reports whether the times may be of the changes after a number up to the last
// one.
func (ct changeTimes) valid(number, last, nowUs int64) bool {
	if len(ct) > maxChangeTimes || (len(ct) == 0) != (number == last) || len(ct) > 0 && ct[0].Number != number+1 {
		return false
	}
	for i, c := range ct {
		if c.Number > last || c.AtUs < 0 || c.AtUs > nowUs || i > 0 && (c.Number <= ct[i-1].Number ||
			c.AtUs <= ct[i-1].AtUs) {
			return false
		}
	}
	return true
}
