package history

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts limits the names that one list of hosts stands for.
const maxHosts = 1 << 17

// expandHosts returns the names that a list in Slurm's form stands for, such as
// "gpu-[001-003,7],login". It takes time in proportion to the names.
func expandHosts(list string) ([]string, error) {
	if strings.IndexByte(list, ',') < 0 {
		return expandHost(list)
	}
	var out []string
	for len(list) > 0 {
		end, depth := len(list), 0
	scan:
		for i := range len(list) {
			switch list[i] {
			case '[':
				depth++
			case ']':
				if depth--; depth < 0 {
					return nil, fmt.Errorf("%.60q has ] without [", list)
				}
			case ',':
				if depth == 0 {
					end = i
					break scan
				}
			}
		}
		if depth != 0 {
			return nil, fmt.Errorf("%.60q has [ without ]", list)
		}
		names, err := expandHost(list[:end])
		if err != nil {
			return nil, err
		}
		if out = append(out, names...); len(out) > maxHosts {
			return nil, fmt.Errorf("a list stands for more than %d nodes", maxHosts)
		}
		list = strings.TrimPrefix(list[end:], ",")
	}
	return out, nil
}

// expandHost expands one name with brackets.
func expandHost(name string) ([]string, error) {
	open := strings.IndexByte(name, '[')
	if strings.IndexByte(name, ']') >= 0 && open < 0 {
		return nil, fmt.Errorf("%.60q has ] without [", name)
	}
	if open < 0 {
		if name == "" {
			return nil, nil
		}
		return []string{name}, nil
	}
	shut := open + strings.IndexByte(name[open:], ']')
	if shut < open {
		return nil, fmt.Errorf("%.60q has [ without ]", name)
	}
	rest, err := expandHost(name[shut+1:])
	if err != nil {
		return nil, err
	}
	if rest == nil {
		rest = []string{""}
	}
	var out []string
	for _, part := range strings.Split(name[open+1:shut], ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%.60q: %q is not a number", name, low)
		}
		to, err := strconv.ParseUint(high, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%.60q: %q is not a number", name, high)
		}
		if to < from || to-from >= maxHosts || len(out)+int(to-from+1)*len(rest) > maxHosts {
			return nil, fmt.Errorf("%.60q: the range %s is empty or too long", name, part)
		}
		for n := from; n <= to; n++ {
			for _, tail := range rest {
				out = append(out, fmt.Sprintf("%s%0*d%s", name[:open], len(low), n, tail))
			}
		}
	}
	return out, nil
}

// maxTasks limits the tasks of one array, above what Slurm lets sites set.
const maxTasks = 1 << 22

// arrayTasks reads the list of the tasks of an array: 1,3-5,8-30:2%4, or a bit mask such as 0x7E, whose bit n is
// task n. cut says that Slurm ended the list by "...", of which the last number may be one of more digits; limit that
// not all of them may run at once. bad is the first part that cannot be read.
func arrayTasks(list string, most int) (tasks []int, cut, limit bool, bad string) {
	list, _, limit = strings.Cut(list, "%")
	list = strings.Trim(list, "[] ")
	if mask, ok := strings.CutPrefix(list, "0x"); ok {
		return bitTasks(mask, most, limit)
	}
	if list, cut = strings.CutSuffix(list, "..."); cut {
		list = list[:strings.LastIndexByte(list, ',')+1]
	}
	for part := range strings.SplitSeq(list, ",") {
		if part == "" {
			continue
		}
		ends, step, strides := strings.Cut(part, ":")
		low, high, isRange := strings.Cut(ends, "-")
		if !isRange {
			high = low
		}
		if !strides {
			step = "1"
		}
		from, err := strconv.ParseUint(low, 10, 32)
		to, err2 := strconv.ParseUint(high, 10, 32)
		by, err3 := strconv.ParseUint(step, 10, 32)
		if err != nil || err2 != nil || err3 != nil || to < from || to > maxTasks || by == 0 ||
			uint64(len(tasks))+(to-from)/by >= uint64(most) {
			bad = cmp.Or(bad, part)
			continue
		}
		for n := from; n <= to; n += by {
			tasks = append(tasks, int(n))
		}
	}
	return tasks, cut, limit, bad
}

// bitTasks reads hexadecimal digits of which the last one stands for tasks 0 to 3.
func bitTasks(mask string, most int, limit bool) ([]int, bool, bool, string) {
	var tasks []int
	for i := range len(mask) {
		digit, err := strconv.ParseUint(mask[len(mask)-1-i:len(mask)-i], 16, 8)
		if err != nil || i > maxTasks/4 || len(tasks) > most-4 {
			return nil, false, limit, "0x" + mask
		}
		for bit := range 4 {
			if digit&(1<<bit) != 0 {
				tasks = append(tasks, 4*i+bit)
			}
		}
	}
	if len(tasks) == 0 {
		return nil, false, limit, "0x" + mask
	}
	return tasks, false, limit, ""
}
