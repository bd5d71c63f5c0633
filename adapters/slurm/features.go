package slurm

import (
	"regexp"
	"slices"
	"strings"
)

// plainName is a feature that may stand in a constraint that the helper writes.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// typeFeatures finds for each GPU type the feature that all of its nodes have and no other node
// with GPUs has. Of several, the one with the name of the type counts, then the first.
func typeFeatures(nodes []Node) map[string]string {
	types, carriers := map[string]int{}, map[string]map[string]int{}
	total := map[string]int{} // the nodes with GPUs that carry the feature
	for i := range nodes {
		n := &nodes[i]
		if len(n.GPUs) == 0 {
			continue
		}
		for _, f := range n.Features {
			total[f]++
		}
		for _, g := range n.GPUs {
			types[g.Type]++
			for _, f := range n.Features {
				if carriers[g.Type] == nil {
					carriers[g.Type] = map[string]int{}
				}
				carriers[g.Type][f]++
			}
		}
	}
	out := map[string]string{}
	for gpuType, count := range types {
		var fit []string
		for f, n := range carriers[gpuType] {
			if n == count && total[f] == count && plainName.MatchString(f) {
				fit = append(fit, f)
			}
		}
		slices.Sort(fit)
		if i := slices.IndexFunc(fit, func(f string) bool { return strings.EqualFold(f, gpuType) }); i > 0 {
			fit[0] = fit[i]
		}
		if len(fit) > 0 {
			out[gpuType] = fit[0]
		}
	}
	return out
}

// constraint is a user's constraint on features, as far as the helper understands it: names that
// a node must have all, or names of which it must have one.
type constraint struct {
	names  []string
	either bool
}

// parseConstraint reads a&b and a|b; false for anything else, which the helper leaves alone.
func parseConstraint(text string) (constraint, bool) {
	if text == "" {
		return constraint{}, true
	}
	either := strings.Contains(text, "|")
	separator := "&"
	if either {
		separator = "|"
	}
	if !either {
		text = strings.ReplaceAll(text, ",", "&")
	}
	c := constraint{names: strings.Split(text, separator), either: either}
	for _, name := range c.names {
		if !plainName.MatchString(name) {
			return constraint{}, false
		}
	}
	return c, true
}

// admits reports whether a node with these features satisfies the constraint.
func (c constraint) admits(features []string) bool {
	if len(c.names) == 0 {
		return true
	}
	has := func(name string) bool { return slices.Contains(features, name) }
	if c.either {
		return slices.ContainsFunc(c.names, has)
	}
	return !slices.ContainsFunc(c.names, func(name string) bool { return !has(name) })
}

// with is the user's constraint narrowed to a type's feature; false where no constraint that the
// helper writes says so: an alternative that has other names than those of types.
func (c constraint) with(feature string) (string, bool) {
	switch {
	case len(c.names) == 0:
		return feature, true
	case !c.either && slices.Contains(c.names, feature):
		return strings.Join(c.names, "&"), true
	case !c.either:
		return strings.Join(c.names, "&") + "&" + feature, true
	case slices.Contains(c.names, feature):
		return feature, true
	}
	return "", false
}
