package online

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// HLASConfig holds the parameters of HLAS. The zero value means the defaults.
type HLASConfig struct {
	// Queues is the number of queues, at most 16; zero means 2.
	Queues int
	// ThresholdsUs are the attained services after which a job leaves queue
	// 0, 1, …, in microseconds of a GPU of the job's reference type, ascending
	// and positive, one less than Queues. Nil means one GPU-hour for the first
	// queue and ten times as much for each further one.
	ThresholdsUs []int64
	// Kappa is the factor of the starvation guard: a job in a lower queue that has
	// waited Kappa times as long as it has executed returns to the first queue. Kappa
	// is at most a million; zero means 2.
	Kappa float64
	// Reference is the GPU type in whose seconds attained service is counted, for
	// jobs that may run on that type. Empty means each job's own fastest type.
	Reference string
}

const (
	maxQueues             = 16
	firstThreshold  int64 = 3_600_000_000
	thresholdFactor       = 10
	defaultKappa          = 2
)

// params checks the configuration and fills in the defaults.
func (cfg HLASConfig) params() (params, error) {
	p := params{policy: "hlas", reference: cfg.Reference}
	n := cfg.Queues
	if n == 0 {
		n = 2
	}
	if n < 1 || n > maxQueues {
		return p, Invalid("/queues", "out_of_range", "%d must be between 1 and %d", n, maxQueues)
	}
	if cfg.ThresholdsUs != nil && len(cfg.ThresholdsUs) != n-1 {
		return p, Invalid("/thresholds_s", "bad_value",
			"%d queues need %d thresholds, not %d: give one less than queues", n, n-1, len(cfg.ThresholdsUs))
	}
	next := firstThreshold
	for i := range n - 1 {
		t := next
		if cfg.ThresholdsUs != nil {
			t = cfg.ThresholdsUs[i]
		}
		if t <= 0 || t > hare.MaxExact || i > 0 && t <= p.thresholds[i-1] {
			return p, Invalid(fmt.Sprintf("/thresholds_s/%d", i), "out_of_range",
				"%s must be positive, at most %s and more than the one before", hare.FormatMicros(t),
				hare.FormatMicros(hare.MaxExact))
		}
		p.thresholds = append(p.thresholds, t)
		next = min(next*thresholdFactor, hare.MaxExact-int64(maxQueues)+int64(i)+1)
	}
	k := cfg.Kappa
	if k == 0 {
		k = defaultKappa
	}
	if !(k >= 1e-6 && k <= 1e6) {
		return p, Invalid("/kappa", "out_of_range", "%g must be between 0.000001 and 1000000", k)
	}
	p.kappa = int64(math.Round(k * million))
	return p, nil
}

// ParseHLASConfig reads parameters from JSON, without unknown fields:
//
//	{"queues": 2, "thresholds_s": [3600], "kappa": 2, "reference": "V100"}
//
// Every field may be left out; empty input means the defaults. Errors are
// *hare.InvalidError with a pointer.
func ParseHLASConfig(raw []byte) (HLASConfig, error) {
	var form struct {
		Queues      int           `json:"queues"`
		ThresholdsS []json.Number `json:"thresholds_s"`
		Kappa       float64       `json:"kappa"`
		Reference   string        `json:"reference"`
	}
	var cfg HLASConfig
	if err := DecodeParameters(raw, &form); err != nil {
		return cfg, err
	}
	cfg = HLASConfig{Queues: form.Queues, Kappa: form.Kappa, Reference: form.Reference}
	for i, t := range form.ThresholdsS {
		us, err := hare.ParseMicros(t.String())
		if err != nil {
			return HLASConfig{}, Invalid(fmt.Sprintf("/thresholds_s/%d", i), "bad_value", "%v", err)
		}
		cfg.ThresholdsUs = append(cfg.ThresholdsUs, us)
	}
	if form.ThresholdsS != nil && cfg.ThresholdsUs == nil {
		cfg.ThresholdsUs = []int64{}
	}
	_, err := cfg.params()
	return cfg, err
}

// DecodeParameters decodes one JSON object without unknown fields; empty input means
// {}. Errors are *hare.InvalidError.
func DecodeParameters(raw []byte, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("text follows the object")
		}
	}
	if err == nil {
		return nil
	}
	return parameterFault(raw, into, err)
}

// parameterFault says which parameter err is about: the first one by name that cannot be
// decoded alone.
func parameterFault(raw []byte, into any, err error) *hare.InvalidError {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return Invalid("", "bad_parameters", "give a JSON object of parameters: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, _ := json.Marshal(map[string]json.RawMessage{name: all[name]})
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields()
		bad := d.Decode(reflect.New(reflect.TypeOf(into).Elem()).Interface())
		pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		var kind *json.UnmarshalTypeError
		switch {
		case bad == nil:
			continue
		case errors.As(bad, &kind):
			return Invalid(pointer, "bad_parameters", "%.60s must be %s", all[name], kindName(kind.Type))
		case strings.Contains(bad.Error(), "unknown field"):
			return Invalid(pointer, "bad_parameters", "the policy has no parameter %.60q", name)
		}
		return Invalid(pointer, "bad_parameters", "%.60s must be a number, or numbers", all[name]) // a json.Number
	}
	return Invalid("", "bad_parameters", "%v", err)
}

// kindName is what a parameter of a Go type must be.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "a " + t.Kind().String()
}

// HLAS is heterogeneity-aware least attained service: it serves jobs of unknown
// length, the least served first, and runs each task on the free GPU that computes
// the task fastest. docs/inside/online.md#hlas states the algorithm, the bound of the starvation
// guard and its proof.
//
// A step costs O(types log jobs) for each task that starts or ends, and O(types)
// more for each class of ready jobs while gangs that may mix types wait; jobs of one
// class have the same types and, for gangs, the same width. A GPU that joins or
// leaves costs O(types) for each class. An HLAS is not safe for concurrent use.
//
// The speed of a job on a type with an empty profile is learned from its first
// four completed tasks there. Until a task has completed there, the speed on the
// job's fastest known type is scaled by the mean relative speeds of the two types
// over the profiles given so far with at least two types; a type without any such
// profile has relative speed 1.
//
// The policy is named after "heterogeneity-aware least attained service" of Hare
// (IEEE TCC 12(4), 2024), of which the name, the non-clairvoyance and the claimed
// gain are published; the queues and the guard follow Tiresias (NSDI 2019).
type HLAS struct{ c *core }

var _ Durable = (*HLAS)(nil)

// NewHLAS starts a session on a cluster all of whose GPUs are free; nil means an
// empty cluster. Errors are *hare.InvalidError.
func NewHLAS(cluster *hare.Cluster, cfg HLASConfig) (*HLAS, error) {
	p, err := cfg.params()
	if err != nil {
		return nil, err
	}
	c := newCore(p)
	if err := c.addCluster(cluster); err != nil {
		return nil, err
	}
	return &HLAS{c}, nil
}

// RestoreHLAS makes the policy that the snapshot was taken of. A torn or altered
// snapshot is an error.
func RestoreHLAS(snapshot []byte) (*HLAS, error) {
	c, err := restore("hlas", snapshot)
	if err != nil {
		return nil, err
	}
	return &HLAS{c}, nil
}

// Step is Policy.Step.
func (h *HLAS) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	return h.c.step(nowUs, events)
}

// Adopt is Durable.Adopt.
func (h *HLAS) Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error {
	return h.c.adopt(nowUs, &event, decisions)
}

// AppendSnapshot is Durable.AppendSnapshot, O(jobs log jobs + GPUs).
func (h *HLAS) AppendSnapshot(b []byte) []byte { return h.c.appendSnapshot(b) }
