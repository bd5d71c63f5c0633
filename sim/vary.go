package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hare-sched/hare"
)

func (tt *TaskTimes) check(spec *hare.Job) error {
	if tt.ComputeUs < 1 || tt.SyncUs < 0 || tt.ComputeUs > hare.MaxExact || tt.SyncUs > hare.MaxExact ||
		tt.FailsAfterUs < 0 || tt.FailsAfterUs > tt.ComputeUs+tt.SyncUs {
		return fmt.Errorf("sim: a task of job %.60q takes %+v µs, which is not possible", spec.ID, *tt)
	}
	return nil
}

// variation is how a run differs from the profiles; it is nil where there is no
// difference.
type variation struct {
	stretch  Stretch
	failures FailureRate
	switchUs int64
	switchOf func(*hare.Job, string) int64
	perByte  float64 // µs
	bytes    func(*hare.Job) int64
	runs     []int64 // Merged.runs, or nil
	lastRuns []int64
	times    func(job int, round, task int64, gpuType string) TaskTimes
	seed     uint64
	source   *rand.PCG
	draws    *rand.Rand
}

// newVariation returns nil where cfg asks for no variation.
func newVariation(cfg *Config) (*variation, error) {
	f, n := cfg.Failures, cfg.Network
	refuse := func(pointer, format string, args ...any) error {
		return &hare.InvalidError{Pointer: pointer, Code: "bad_value", Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case !(f.Probability >= 0 && f.Probability < 1): // also NaN
		return nil, refuse("/failures/probability", "%v must be from 0 to below 1", f.Probability)
	case !(f.PerGPUHour >= 0 && f.PerGPUHour <= 3.6e9):
		return nil, refuse("/failures/per_gpu_hour", "%v must be from 0 to one a microsecond", f.PerGPUHour)
	case cfg.SwitchUs < 0 || cfg.SwitchUs > hare.MaxExact:
		return nil, refuse("/switch_s", "%s must not be negative", hare.FormatMicros(cfg.SwitchUs))
	case !(n.InterBytesPerS >= 0 && n.IntraBytesPerS >= 0) || math.IsInf(n.InterBytesPerS, 0):
		return nil, refuse("/network", "%v and %v bytes/s must not be negative", n.InterBytesPerS, n.IntraBytesPerS)
	case n.IntraBytesPerS > 0 && n.IntraBytesPerS < n.InterBytesPerS:
		return nil, refuse("/network", "%v bytes/s inside a node are less than %v between nodes", n.IntraBytesPerS,
			n.InterBytesPerS)
	case n.InterBytesPerS > 0 && n.Bytes == nil:
		return nil, refuse("/network", "a network needs the bytes of jobs")
	}
	v := &variation{stretch: cfg.Stretch, failures: f, switchUs: cfg.SwitchUs, switchOf: cfg.SwitchOfUs,
		seed: cfg.Seed, runs: cfg.runs, lastRuns: cfg.lastRuns, times: cfg.Times}
	if n.InterBytesPerS > 0 {
		v.perByte, v.bytes = 1e6/n.InterBytesPerS, n.Bytes
		if n.IntraBytesPerS > 0 {
			v.perByte -= 1e6 / n.IntraBytesPerS
		}
	}
	if v.stretch == nil && v.failures == (FailureRate{}) && v.switchUs == 0 && v.switchOf == nil && v.bytes == nil &&
		v.runs == nil && v.times == nil {
		return nil, nil
	}
	v.source = rand.NewPCG(0, 0)
	v.draws = rand.New(v.source)
	return v, nil
}

// These are the purposes of draws; each has random streams of its own.
const (
	gpuFaults = iota + 1
	nodeFaults
	taskTimes
	taskFailures
)

// GPUFaultSeed is the second seed of the faults of a GPU, by number.
func GPUFaultSeed(gpu int) uint64 { return mix(gpuFaults, uint64(gpu)) }

// mix hashes several numbers into one with the finaliser of splitmix64 (Steele, Lea and
// Flood, 2014).
func mix(v ...uint64) uint64 {
	x := uint64(0)
	for _, w := range v {
		x += w + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// switching is how long a GPU is busy with the switch to another job.
func (v *variation) switching(spec *hare.Job, kind string) (int64, error) {
	if v.switchOf == nil {
		return v.switchUs, nil
	}
	us := v.switchOf(spec, kind)
	if us < 0 || us > hare.MaxExact {
		return 0, fmt.Errorf("sim: the switch to job %.60q on %.60q takes %s s, which must not be negative", spec.ID,
			kind, hare.FormatMicros(us))
	}
	return us, nil
}

// stretched draws a compute time.
func (v *variation) stretched(computeUs int64, key uint64, spec *hare.Job) (int64, error) {
	if v.stretch == nil {
		return computeUs, nil
	}
	v.source.Seed(v.seed, mix(taskTimes, key))
	by := v.stretch.Draw(v.draws)
	us := math.Round(float64(computeUs) * by)
	if !(by > 0) || us > hare.MaxExact {
		return 0, fmt.Errorf("sim: a task of job %.60q is stretched by %v, from %s s: the factor must be positive "+
			"and the time at most %s s", spec.ID, by, hare.FormatMicros(computeUs), hare.FormatMicros(hare.MaxExact))
	}
	return max(int64(us), 1), nil
}

// failsAfterUs draws how long after its start a task fails; 0 means that it does not.
// onGPUUs is how long the task uses its GPU, longUs how long it takes in all.
func (v *variation) failsAfterUs(onGPUUs, longUs int64, key uint64) int64 {
	f := &v.failures
	if *f == (FailureRate{}) {
		return 0
	}
	v.source.Seed(v.seed, mix(taskFailures, key))
	at := int64(math.MaxInt64)
	if v.draws.Float64() < f.Probability {
		at = 1 + v.draws.Int64N(longUs)
	}
	if f.PerGPUHour > 0 {
		if us := v.draws.ExpFloat64() * 3.6e9 / f.PerGPUHour; us < float64(onGPUUs) {
			at = min(at, 1+int64(us))
		}
	}
	if at == math.MaxInt64 {
		return 0
	}
	return at
}

// extraUs is the additional synchronisation time of a round that is spread over nodes.
func (v *variation) extraUs(spec *hare.Job) (int64, error) {
	d := v.bytes(spec)
	us := math.Round(2 * float64(spec.Tasks-1) / float64(spec.Tasks) * float64(d) * v.perByte)
	if d < 0 || us > hare.MaxExact {
		return 0, fmt.Errorf("sim: job %.60q reduces %d bytes, in %v s more than inside a node: at least 0 bytes, "+
			"and at most %s s", spec.ID, d, us/1e6, hare.FormatMicros(hare.MaxExact))
	}
	return int64(us), nil
}
