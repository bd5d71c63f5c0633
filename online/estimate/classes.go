package estimate

import (
	"container/list"
	"slices"
)

// Limits of what is remembered of classes. The class that no job has ended in for the
// longest time is forgotten first.
var (
	maxClasses = 4096
	maxLevels  = 64
)

// Label is one label of a job's class, such as user=ann.
type Label struct{ Name, Value string }

// classKey is one class that a job belongs to.
type classKey struct {
	key   uint64 // of names and values
	level uint64 // of names alone
	width int    // labels
}

// classKeys lists the classes of a job with such labels, which are sorted by name: those
// of each label alone, of all labels but one, and of all labels, in this order.
func classKeys(labels []Label) []classKey {
	var keys []classKey
	n := len(labels)
	for i := range n {
		keys = append(keys, keyOf(labels[i:i+1]))
	}
	if n > 2 {
		for i := range n {
			keys = append(keys, keyOf(slices.Concat(labels[:i], labels[i+1:])))
		}
	}
	if n > 1 {
		keys = append(keys, keyOf(labels))
	}
	return keys
}

// keyOf hashes labels by FNV-1a. Classes whose hashes are equal are taken for one, which
// makes predictions worse and nothing else.
func keyOf(labels []Label) classKey {
	k := classKey{key: fnvOffset, level: fnvOffset, width: len(labels)}
	for _, l := range labels {
		k.level = hashText(k.level, l.Name)
		k.key = hashText(hashText(k.key, l.Name), l.Value)
	}
	return k
}

const fnvOffset, fnvPrime = 0xcbf29ce484222325, 0x100000001b3

// hashText continues a hash with a text and an end that no UTF-8 has.
func hashText(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime
}

// fine is how many parts a mean of logarithms has for each part of a logarithm.
const fine = 256

// mean is a mean of logarithms that forgets: each value counts as one of at most cap.
type mean struct{ n, sum int64 } // sum is the mean times fine

func (me *mean) add(value, limit int64) {
	me.n = min(me.n+1, limit)
	me.sum += divide(value*fine-me.sum, me.n)
}

// credible is the mean drawn towards that of a larger class, by Bühlmann's credibility
// n/(n + prior) (1967).
func (me *mean) credible(larger int64) int64 {
	return divide(me.n*me.sum+prior*larger, me.n+prior)
}

const (
	// prior is how many jobs the mean of the larger class counts as.
	prior = 1
	// memory is how many of the last jobs of a class count. On a week of Philly's jobs, 16
	// to 64 predict alike, and fewer or more predict worse.
	memory = 32
	// skillMemory is how many of the last jobs of a level count.
	skillMemory = 256
)

// class is what is remembered of the jobs of a class that ended.
type class struct {
	key              uint64
	sizes, estimates mean // of log sizes, and of log estimates where there are any
}

// level is how well classes with certain names of labels predict.
type level struct {
	key     uint64
	sizes   skill // of log sizes, beside the plain prediction
	offsets skill // of log size less log estimate, beside the mean of all
}

// skill compares predictions with plain ones by means of squared errors.
type skill struct{ missed, plain mean }

func (sk *skill) add(missed, plain int64) {
	sk.missed.add(square(missed), skillMemory)
	sk.plain.add(square(plain), skillMemory)
}

// square is the square of an error that is limited to maxError.
func square(off int64) int64 {
	off = min(max(off, -maxError), maxError)
	return off * off
}

// helps is false where enough jobs have shown that plain predictions are better.
func (sk *skill) helps() bool { return sk.missed.n < minPairs || sk.missed.sum < sk.plain.sum }

// beats reports whether the share of the plain predictions' error is less than that of o.
func (sk *skill) beats(o *skill) bool {
	return float64(sk.missed.sum)*float64(o.plain.sum) < float64(o.missed.sum)*float64(sk.plain.sum)
}

// recent is a map that forgets the entry that was not used for the longest time.
type recent[T any] struct {
	of    map[uint64]*list.Element
	order list.List // of *T, least recently used first
}

func (rc *recent[T]) find(key uint64) *T {
	if e := rc.of[key]; e != nil {
		return e.Value.(*T)
	}
	return nil
}

// use finds an entry or makes one, and says that it is used.
func (rc *recent[T]) use(key uint64, limit int, fresh func() *T, keyOf func(*T) uint64) *T {
	if e := rc.of[key]; e != nil {
		rc.order.MoveToBack(e)
		return e.Value.(*T)
	}
	if rc.of == nil {
		rc.of = map[uint64]*list.Element{}
	}
	if len(rc.of) >= limit {
		oldest := rc.order.Front()
		delete(rc.of, keyOf(oldest.Value.(*T)))
		rc.order.Remove(oldest)
	}
	v := fresh()
	rc.of[key] = rc.order.PushBack(v)
	return v
}
