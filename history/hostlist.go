package history

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts limits the names that one list of hosts stands for.
const maxHosts = 1 << 17

// expandHosts returns the names that a list in Slurm's form stands for, such as
// "gpu-[001-003,7],login". It takes time in proportion to the names.
func expandHosts(list string) ([]string, error) {
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
