package pseudonym

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/wire"
)

// Text is a text with its name in errors.
type Text struct {
	Name string
	Body []byte
}

// Rename returns the texts with invented names, in their order, and how the names were replaced. Texts are those that
// readers of package history and trace take, and Hare's own documents and logs. A text of another kind is an error. It
// takes time in proportion to the texts, and a few times their memory.
func Rename(texts []Text) (out [][]byte, names map[string]string, err error) {
	texts = slices.Clone(texts)
	for i, t := range texts {
		if bytes.HasPrefix(t.Body, []byte("PK\x03\x04")) {
			unpacked, err := history.UnpackSnapshot(bufio.NewReader(bytes.NewReader(t.Body)))
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.Name, err)
			}
			if texts[i].Body, err = io.ReadAll(unpacked); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.Name, err)
			}
		}
	}
	w := &walker{bases: map[string]bool{}, types: map[string]bool{},
		spaces: map[string]bool{}}
	for _, p := range []phase{finding, gathering, writing} {
		w.phase = p
		w.prepare()
		out = out[:0]
		for _, t := range texts {
			body, err := w.text(t)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, body)
		}
	}
	return rehash(texts, out), w.names, nil
}

// rehash replaces the hashes of instances in all texts by those of the renamed instances.
func rehash(texts []Text, out [][]byte) [][]byte {
	for i := range texts {
		before, err := wire.DecodeInstance(bytes.NewReader(texts[i].Body), wire.Limits{})
		if err != nil {
			continue
		}
		after, err := wire.DecodeInstance(bytes.NewReader(out[i]), wire.Limits{})
		if err != nil {
			continue
		}
		for j := range out {
			out[j] = bytes.ReplaceAll(out[j], []byte(wire.SHA256(before)), []byte(wire.SHA256(after)))
		}
	}
	return out
}

// phase is what a walk through the texts is for.
type phase int

const (
	finding   phase = iota // names of nodes with a count, and GPU types
	gathering              // all names
	writing
)

// walker walks through texts.
type walker struct {
	phase phase
	bases map[string]bool // names of nodes with a count: node a with the count 2 stands for a-0 and a-1
	types map[string]bool // GPU types, in lower case
	// spaces are names with a slash and another name behind them, such as namespaces.
	spaces map[string]bool
	seen   map[string]bool   // names
	names  map[string]string // invented ones
}

// prepare begins a walk.
func (w *walker) prepare() {
	if w.phase != writing {
		w.seen = map[string]bool{}
		return
	}
	sorted := make([]string, 0, len(w.seen))
	for name := range w.seen {
		sorted = append(sorted, name)
	}
	key := func(name string) string {
		if w.spaces[name] {
			return name + "/" // "a-b/x" is before "a/x"
		}
		return name
	}
	slices.SortFunc(sorted, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	digits := max(3, len(strconv.Itoa(len(sorted))))
	prefix := "n"
	for _, p := range []string{"n", "x", "alias-", "name-", "invented-", "pseudonym-"} {
		like := regexp.MustCompile("^" + p + `\d+`)
		if prefix = p; !slices.ContainsFunc(sorted, like.MatchString) {
			break
		}
	}
	w.names = make(map[string]string, len(sorted))
	for i, name := range sorted {
		w.names[name] = fmt.Sprintf("%s%0*d", prefix, digits, i+1)
	}
}

var (
	gpuRef   = regexp.MustCompile(`^(.+)/(\d+)$`)
	attempt  = regexp.MustCompile(`^(.+)#(\d+)$`)
	numbered = regexp.MustCompile(`^(.+)-(\d+)$`)
)

// name replaces a name. GPUs of a node, attempts of a job, and labels that readers make of features and partitions are
// names with more around them.
func (w *walker) name(s string) string {
	for _, prefix := range []string{"feature.", "partition.", "node:", "_ray_internal_job_actor_"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok && rest != "" {
			return prefix + w.name(rest)
		}
	}
	if m := gpuRef.FindStringSubmatch(s); m != nil {
		return w.name(m[1]) + "/" + m[2]
	}
	if m := attempt.FindStringSubmatch(s); m != nil {
		return w.name(m[1]) + "#" + m[2]
	}
	if m := numbered.FindStringSubmatch(s); m != nil && w.bases[m[1]] {
		return w.name(m[1]) + "-" + m[2]
	}
	if rest, ok := strings.CutPrefix(s, "pool-"); ok && w.types[rest] || harmless(s) || isKnownLabel(s) {
		return s
	}
	if space, rest, ok := strings.Cut(s, "/"); ok {
		w.spaces[space] = true
		return w.name(space) + "/" + w.name(rest)
	}
	if w.phase != writing {
		w.seen[s] = true
		return s
	}
	return w.names[s]
}

// list replaces names with separators between them.
func (w *walker) list(s, separators string) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(s, separators)
		if i < 0 {
			b.WriteString(w.name(s))
			return b.String()
		}
		b.WriteString(w.name(s[:i]))
		b.WriteByte(s[i])
		s = s[i+1:]
	}
}

var (
	number = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?([KMGTPE]i?|m|k|[nc]|[KMGTP][nc]|s|ms|us|` +
		`h|d|%)?$`)
	moment = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}\.[0-9]{2}\.[0-9]{4})` +
		`([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?` +
		`(Z|[-+][0-9]{2}:?[0-9]{2})?)?$`)
	duration = regexp.MustCompile(`^([0-9]+-)?[0-9]+(:[0-9]{2}){1,2}(\.[0-9]+)?$|^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`)
	ranges   = regexp.MustCompile(`^[0-9]+([-,:x*_+#][0-9]+)*$`)
	sums     = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)
)

// nothings are words that stand for nothing, or say yes or no.
var nothings = setOf(`true false null none None NONE Unknown unknown UNKNOWN N/A n/a (null) NOT_SET UNLIMITED unlimited
	infinite INFINITE INVALID Partition_Limit nan NaN NaT yes no node any Any <nil> -`)

// harmless reports whether a text is a number, with a unit or without, a time, a duration, or a word for nothing.
func harmless(s string) bool {
	return s == "" || nothings[s] || number.MatchString(s) || moment.MatchString(s) || duration.MatchString(s) ||
		ranges.MatchString(s) || s == "None assigned"
}

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.Fields(words) {
		out[word] = true
	}
	return out
}
