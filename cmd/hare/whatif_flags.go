package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// change is one flag of a what-if, as a part of a scenario.
type change struct {
	label string // the flag as the user gave it
	part  string // name of the part in the scenario
	value any
	whole []json.RawMessage // the scenarios of --scenario, unchanged
}

// changeFlag collects the changes of several flags in the order of the command line.
type changeFlag struct {
	name string
	all  *[]change
	read func(text string) (part string, value any, err error)
}

var _ pflag.Value = (*changeFlag)(nil)

func (cf *changeFlag) String() string { return "" }
func (cf *changeFlag) Type() string   { return "change" }

// files returns the names of the files that this flag named.
func (cf *changeFlag) files() (names []string) {
	for _, c := range *cf.all {
		if name, ok := strings.CutPrefix(c.label, cf.name+" "); ok {
			names = append(names, name)
		}
	}
	return names
}

// Set parses one change.
func (cf *changeFlag) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	if !utf8.ValidString(text) && !slices.Contains([]string{"add-job", "add-node", "patch", "scenario"}, cf.name) {
		return errors.New("it is not valid UTF-8") // those name files
	}
	part, value, err := cf.read(text)
	if err != nil {
		return err
	}
	c := change{label: cf.name + " " + text, part: part, value: value}
	if part == "" {
		c.whole = value.([]json.RawMessage)
	}
	*cf.all = append(*cf.all, c)
	return nil
}

// changeFlags adds the flags that make scenarios.
func changeFlags(f *pflag.FlagSet, all *[]change) {
	add := func(name, usage string, read func(string) (string, any, error)) {
		f.Var(&changeFlag{name, all, read}, name, usage)
	}
	add("add", "add GPUs on a new node: TYPE=COUNT", func(text string) (string, any, error) {
		kind, count, err := pair(text, "TYPE=COUNT", "V100=8")
		return "add_gpus", map[string]any{"type": kind, "count": count}, err
	})
	add("remove-gpus", "remove GPUs of a node: NODE=COUNT, or NODE:TYPE=COUNT where it has several types",
		func(text string) (string, any, error) {
			node, count, err := pair(text, "NODE=COUNT or NODE:TYPE=COUNT", "n1=2")
			v := map[string]any{"node": node, "count": count}
			if name, kind, ok := strings.Cut(node, ":"); ok {
				v["node"], v["type"] = name, kind
			}
			return "remove_gpus", v, err
		})
	add("drop-node", "end the service of a node: NODE@SECONDS, NODE@96h, or NODE for at once",
		func(text string) (string, any, error) {
			node, at, given := text, "0", false
			if i := strings.LastIndex(text, "@"); i >= 0 {
				node, at, given = text[:i], text[i+1:], true
			}
			us, bad := flagMicros(at)
			if i := strings.LastIndexAny(text, "=:"); !given && i > 0 {
				if _, isTime := flagMicros(text[i+1:]); isTime == nil {
					return "", nil, fmt.Errorf("give NODE@TIME: write %s@%s", text[:i], text[i+1:])
				}
			}
			if bad != nil || node == "" {
				return "", nil, errors.New("give NODE@TIME, in seconds as n3@3600 or with units as n3@96h, or NODE alone")
			}
			return "drain", map[string]any{"node": node, "at_s": json.Number(hare.FormatMicros(us))}, nil
		})
	add("remove-job", "remove this job", func(text string) (string, any, error) { return "remove_jobs", text, nil })
	add("add-job", "add the job, or the array of jobs, in this file", func(text string) (string, any, error) {
		jobs, err := oneOrMore(text, "a job")
		return "add_jobs", jobs, err
	})
	add("add-node", "add the node, or the array of nodes, in this file", func(text string) (string, any, error) {
		nodes, err := oneOrMore(text, "a node")
		return "add_nodes", nodes, err
	})
	add("scale-weight", "multiply weights: JOB=FACTOR, or FACTOR for all jobs",
		func(text string) (string, any, error) { return factors("scale_weights", text) })
	add("scale-duration", "multiply compute and synchronisation times: JOB=FACTOR, or FACTOR for all jobs",
		func(text string) (string, any, error) { return factors("scale_durations", text) })
	add("drop-after", "let a job wait for no other job, JOB, or not for one of them, JOB=OTHER",
		func(text string) (string, any, error) {
			job, other, given := strings.Cut(text, "=")
			if job == "" || given && other == "" {
				return "", nil, errors.New("give JOB, or JOB=OTHER, e.g. train=prep")
			}
			v := map[string]any{"job": job}
			if given {
				v["after"] = other
			}
			return "drop_after", v, nil
		})
	add("set-quota", "limit the GPUs of a user's jobs: USER=COUNT, or USER:TYPE=COUNT for the quota of a type",
		func(text string) (string, any, error) {
			user, count, err := pair(text, "USER=COUNT or USER:TYPE=COUNT", "ann=16")
			v := map[string]any{"user": user, "gpus": count}
			if i := strings.LastIndex(user, ":"); i > 0 {
				v["user"], v["types"] = user[:i], []string{user[i+1:]}
			}
			return "set_quota", v, err
		})
	add("patch", "apply the JSON patch (RFC 6902) in this file to the instance", func(text string) (string, any, error) {
		ops, err := oneOrMore(text, "a JSON patch")
		return "patch", ops, err
	})
	add("scenario", "the scenario, or the array of scenarios, in this file", func(text string) (string, any, error) {
		all, err := oneOrMore(text, "a scenario")
		return "", all, err
	})
}

// factors parses JOB=FACTOR, or a factor for all jobs.
func factors(part, text string) (string, any, error) {
	job, factor := "", text
	if i := strings.LastIndex(text, "="); i >= 0 {
		job, factor = text[:i], text[i+1:]
	}
	if _, bad := hare.ParseMicros(factor); bad != nil || strings.HasPrefix(text, "=") {
		return "", nil, errors.New("give JOB=FACTOR, e.g. bert=2, or a factor for all")
	}
	if job == "" {
		return part, json.Number(factor), nil
	}
	return part, map[string]any{job: json.Number(factor)}, nil
}

// otherPairs are other forms in which people give a name and a number: H100:4, 4xH100, H100x4, H100 4.
var otherPairs = []*regexp.Regexp{
	regexp.MustCompile(`^(?P<name>.+?) *[: ] *(?P<count>\d+)$`),
	regexp.MustCompile(`^(?P<count>\d+) *[x*: =] *(?P<name>\D.*)$`),
	regexp.MustCompile(`^(?P<name>.+?) *[x*] *(?P<count>\d+)$`),
}

// pair parses NAME=COUNT.
func pair(text, form, example string) (name string, count int64, err error) {
	i := strings.LastIndex(text, "=")
	if i > 0 {
		if count, err = strconv.ParseInt(text[i+1:], 10, 64); err == nil {
			return text[:i], count, nil
		}
		return "", 0, fmt.Errorf("give %s, with a whole number, such as %s", form, example)
	}
	for _, other := range otherPairs {
		if other.MatchString(text) {
			return "", 0, fmt.Errorf("give %s: write %s", form, other.ReplaceAllString(text, "${name}=${count}"))
		}
	}
	if strings.Contains(text, "=") {
		return "", 0, fmt.Errorf("give %s, such as %s", form, example)
	}
	name, number, _ := strings.Cut(example, "=")
	if _, bad := strconv.ParseUint(text, 10, 64); bad == nil {
		return "", 0, fmt.Errorf("give %s, such as %s=%s", form, name, text)
	}
	return "", 0, fmt.Errorf("give %s, such as %s=%s", form, text, number)
}

// oneOrMore reads a file that contains what is due: a JSON value or an array of values.
func oneOrMore(name, want string) ([]json.RawMessage, error) {
	f, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, wire.DefaultMaxBytes))
	if err != nil {
		return nil, err
	}
	is := recognise(text[:min(len(text), headBytes)])
	is.what = strings.TrimPrefix(is.what, "a list that begins with ")
	switch valid := json.Valid(text) && utf8.Valid(text); {
	case !valid && (is.what == "" || is.what == want):
		return nil, fmt.Errorf("%s is not JSON", name)
	case !valid, is.what != "" && is.what != want && is.what != "a JSON array":
		return nil, &wrongDocument{name, want, is}
	}
	var all []json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		all = []json.RawMessage{text}
	}
	return all, nil
}

// scenarios turns changes into scenarios and returns their labels. Each change is a
// scenario or, with together, all changes are one scenario; scenarios of files are
// added as they are.
func scenarios(all []change, together bool, kinds []string) (out []json.RawMessage, labels []string, err error) {
	joined := map[string]any{}
	var names []string
	put := func(to map[string]any, c change) error {
		switch part := c.part; part {
		case "add_jobs", "add_nodes", "patch":
			for _, x := range c.value.([]json.RawMessage) {
				to[part] = append(list(to[part]), x)
			}
		case "scale_weights", "scale_durations":
			factors, ok := c.value.(map[string]any)
			before, had := to[part].(map[string]any)
			switch {
			case to[part] == nil:
				to[part] = c.value
			case !ok || !had:
				return usageError{errors.New("--together takes one factor for all jobs, or several by job, not both")}
			default:
				for job, x := range factors {
					before[job] = x
				}
			}
		default:
			if part == "add_gpus" {
				gpus := c.value.(map[string]any)
				gpus["type"] = canonicalType(gpus["type"].(string), kinds)
			}
			to[part] = append(list(to[part]), c.value)
		}
		return nil
	}
	encode := func(v map[string]any, label string) error {
		v["id"] = label
		text, err := json.Marshal(v)
		out, labels = append(out, text), append(labels, label)
		return err
	}
	for _, c := range all {
		if c.whole != nil {
			for i, x := range c.whole {
				out, labels = append(out, x), append(labels, fmt.Sprintf("%s #%d", c.label, i))
			}
			continue
		}
		to := joined
		if !together {
			to = map[string]any{}
		}
		if err := put(to, c); err != nil {
			return nil, nil, err
		}
		if names = append(names, c.label); !together {
			if err := encode(to, c.label); err != nil {
				return nil, nil, err
			}
		}
	}
	if together && len(names) > 0 {
		err = encode(joined, cutLabel(strings.Join(names, ", ")))
	}
	return out, labels, err
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// cutLabel shortens a label to the greatest length of an id.
func cutLabel(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

// canonicalType returns the name of a type as the instance spells it, ignoring upper
// and lower case.
func canonicalType(kind string, kinds []string) string {
	if i := slices.IndexFunc(kinds, func(k string) bool { return strings.EqualFold(k, kind) }); i >= 0 &&
		!slices.Contains(kinds, kind) {
		return kinds[i]
	}
	return kind
}

// kindsOf returns the types that the cluster has or for which a job has a profile.
func kindsOf(inst *hare.Instance) (kinds []string) {
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			kinds = append(kinds, g.Type)
		}
	}
	for i := range inst.Jobs {
		for _, p := range inst.Jobs[i].On {
			kinds = append(kinds, p.Type)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
