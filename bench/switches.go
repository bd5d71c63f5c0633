package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Switches are the measured switches between models on one device, as the module
// hare_worker.bench_switch prints them.
type Switches struct {
	// Set names the models: "paper", "small" or "plain".
	Set string `json:"set"`
	// BatchFactor is how many times the examples of the set's batches a task has.
	BatchFactor int          `json:"batch_factor"`
	Device      SwitchDevice `json:"device"`
	// Repetitions is how often each pair was measured under each method, and Complete whether
	// that is as often as was asked for.
	Repetitions int     `json:"repetitions"`
	Complete    bool    `json:"complete"`
	Seconds     float64 `json:"seconds"`
	// GroupBytes is from how many bytes of parameters on a group ends.
	GroupBytes int64 `json:"group_bytes"`
	// CopyBytesPerS is the rate of pinned copies to the device, where copies were timed.
	CopyBytesPerS *float64       `json:"copy_bytes_per_s"`
	Models        []SwitchModel  `json:"models"`
	Methods       []SwitchMethod `json:"methods"`
}

// SwitchDevice says on what switches were measured. Torch is absent where models need none, and
// Load is the load of the machine, averaged over a minute, when the run ended.
type SwitchDevice struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"`
	Python string  `json:"python"`
	Torch  *string `json:"torch"`
	Load   float64 `json:"load"`
}

// SwitchModel is a model of the set.
type SwitchModel struct {
	Name string `json:"name"`
	// Bytes is the size of parameters and optimiser, copied in so many Groups.
	Bytes  int64 `json:"bytes"`
	Groups int   `json:"groups"`
	// TaskMs is the median time of a task whose model is on the device.
	TaskMs float64 `json:"task_ms"`
	// LossesApart is how far the losses of tasks are apart, relative to them, where the model was
	// copied away between its tasks and where it stayed. LossesNoise is how far they are apart in
	// two runs in which it stayed. Both are 0 where all kernels have a deterministic form.
	LossesApart float64 `json:"losses_apart"`
	LossesNoise float64 `json:"losses_noise"`
	// SameResult reports whether LossesApart is at most a millionth, or three times the noise.
	SameResult bool `json:"same_result"`
}

// SwitchMethod has the costs of all switches under one method, in milliseconds.
type SwitchMethod struct {
	Method string  `json:"method"`
	P50Ms  float64 `json:"p50_ms"`
	P99Ms  float64 `json:"p99_ms"`
	// GapP50Ms is the time between the last kernel of one task and the first of the next; only
	// GPUs can tell it.
	GapP50Ms *float64     `json:"gap_p50_ms,omitempty"`
	Pairs    []SwitchPair `json:"pairs"`
}

// SwitchPair has the costs of switches from one model to another. From is empty for new
// processes, to which it makes no difference.
type SwitchPair struct {
	From        string  `json:"from"`
	To          string  `json:"to"`
	P50Ms       float64 `json:"p50_ms"`
	P99Ms       float64 `json:"p99_ms"`
	Repetitions int     `json:"repetitions"`
}

// ReadSwitches reads the result of hare_worker.bench_switch.
func ReadSwitches(r io.Reader) (*Switches, error) {
	var s Switches
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("the result of the switches is no JSON of this version: %w", err)
	}
	if len(s.Models) == 0 || len(s.Methods) == 0 || s.Repetitions < 1 {
		return nil, fmt.Errorf("the result of the switches has %d models, %d methods and %d repetitions",
			len(s.Models), len(s.Methods), s.Repetitions)
	}
	return &s, nil
}

// Write prints two tables in Markdown: the methods, and the models.
func (s *Switches) Write(w io.Writer) error {
	out := &lineWriter{w: w}
	out.printf("%s, %d repetitions of %d pairs in %.0f s, load %.2f", s.Device.Name, s.Repetitions,
		len(s.Models)*(len(s.Models)-1), s.Seconds, s.Device.Load)
	if s.Device.Torch != nil {
		out.printf(", PyTorch %s on %s", *s.Device.Torch, s.Device.Kind)
	}
	if s.BatchFactor > 1 {
		out.printf(", batches %d times as large", s.BatchFactor)
	}
	if s.CopyBytesPerS != nil {
		out.printf(", pinned copies at %.1f GB/s", *s.CopyBytesPerS/1e9)
	}
	out.printf("\n")
	if !s.Complete {
		out.printf("The time ended before all repetitions were made.\n")
	}
	out.printf("\n| method | switch p50, ms | p99, ms | beyond warm, ms | gap p50, ms | measured |\n")
	out.printf("|---|---|---|---|---|---|\n")
	for i := range s.Methods {
		m, measured := &s.Methods[i], 0
		for _, p := range m.Pairs {
			measured += p.Repetitions
		}
		beyond, gap := "–", "–"
		if ms, ok := s.beyondWarm(m); ok {
			beyond = strconv.FormatFloat(ms, 'f', 2, 64)
		}
		if m.GapP50Ms != nil {
			gap = strconv.FormatFloat(*m.GapP50Ms, 'f', 2, 64)
		}
		out.printf("| %s | %.2f | %.2f | %s | %s | %d |\n", m.Method, m.P50Ms, m.P99Ms, beyond, gap, measured)
	}
	out.printf("\n| model | MB with optimiser | groups | task, ms | same losses | apart | noise |\n")
	out.printf("|---|---|---|---|---|---|---|\n")
	for _, m := range s.Models {
		same := "yes"
		if !m.SameResult {
			same = "no"
		}
		out.printf("| %s | %.1f | %d | %.2f | %s | %.1e | %.1e |\n", m.Name, float64(m.Bytes)/1e6, m.Groups, m.TaskMs,
			same, m.LossesApart, m.LossesNoise)
	}
	return out.err
}

// beyondWarm is the median over all pairs of models of how much more a switch costs than one between
// models that are both on the device, in milliseconds. The two are measured one after the other, so
// that a device whose speed changes during the run says more about their difference than about each.
// It is false where the method has other pairs.
func (s *Switches) beyondWarm(m *SwitchMethod) (ms float64, ok bool) {
	type pair struct{ from, to string }
	warm := map[pair]float64{}
	for _, other := range s.Methods {
		if other.Method == "warm" {
			for _, p := range other.Pairs {
				warm[pair{p.From, p.To}] = p.P50Ms
			}
		}
	}
	var more []float64
	for _, p := range m.Pairs {
		base, ok := warm[pair{p.From, p.To}]
		if !ok {
			return 0, false
		}
		more = append(more, p.P50Ms-base)
	}
	if len(more) == 0 {
		return 0, false
	}
	slices.Sort(more)
	return (more[(len(more)-1)/2] + more[len(more)/2]) / 2, true
}

// lineWriter keeps the first error.
type lineWriter struct {
	w   io.Writer
	err error
}

func (lw *lineWriter) printf(format string, args ...any) {
	if lw.err == nil {
		_, lw.err = fmt.Fprintf(lw.w, format, args...)
	}
}
