package plot

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestSVGGolden(t *testing.T) {
	for _, name := range []string{"three-jobs", "windows", "traps", "shared"} {
		folder := "../testdata/examples/"
		if name == "shared" { // the picture of docs/inside/design.md#8-pages
			folder = "testdata/"
		}
		inst, res := loadFrom(t, folder, name+".instance.json", name+".result.json")
		got := drawSVG(t, inst, res, Options{})
		wellFormed(t, got)
		if got != drawSVG(t, inst, res, Options{}) {
			t.Errorf("%s: two drawings differ", name)
		}
		file := "testdata/" + name + ".svg"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s: run with -update and look at it", name, file)
		}
	}
}

// A bar is where its task is: here a GPU is busy from 2.5 s of 16.25 s.
func TestPNGPlaces(t *testing.T) {
	inst, res := load(t, "windows.instance.json", "windows.result.json")
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	c := s.layout(Options{Width: 1200}, maxBars)
	var b bytes.Buffer
	if err := PNG(&b, inst, res, Options{Scale: 1}); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	row := c.rows[0] // n-0/0, K80
	at := func(seconds float64) color.RGBA {
		return color.RGBAModel.Convert(img.At(int(c.plot.x+seconds/16.25*c.plot.w), int(row.y+4))).(color.RGBA)
	}
	if got := at(1); got != hatch && got != hatched {
		t.Errorf("busy at 1 s: %v", got)
	}
	if got := at(3.5); got != jobColour(0) {
		t.Errorf("job a at 3.5 s: %v", got)
	}
	if got := at(12); got != jobColour(2) {
		t.Errorf("job c at 12 s: %v", got)
	}
	if got := at(15); got != ground {
		t.Errorf("idle at 15 s: %v", got)
	}
}

// With 41,259 tasks, every format stays small and fast.
func TestManyTasks(t *testing.T) {
	inst := loadInstance(t, "../testdata/instances/standard-200.json.gz")
	res := listSchedule(inst)
	for name, tt := range map[string]struct {
		write func(io.Writer, *hare.Instance, *hare.Result, Options) error
		most  int
	}{
		"svg":  {SVG, 1_500_000},
		"png":  {PNG, 1_500_000},
		"html": {HTML, 1_200_000},
	} {
		var b bytes.Buffer
		start := time.Now()
		if err := tt.write(&b, inst, res, Options{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if b.Len() > tt.most || b.Len() < 50_000 {
			t.Errorf("%s has %d bytes", name, b.Len())
		}
		if name == "svg" {
			wellFormed(t, b.String())
		}
	}
}

// The schedule has 16,000 GPUs with 100 runs each, most far narrower than a pixel.
func TestManyGPUs(t *testing.T) {
	inst := &hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n",
		GPUs: []hare.TypeCount{{Type: "A", Count: 8000}, {Type: "B", Count: 8000}}}}}}
	for j := range 100 {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", j), WeightMicro: 1e6, Rounds: 1e6, Tasks: 16000,
			Sync: hare.Gang,
			On:   []hare.Profile{{Type: "A", ComputeUs: 5e6, SyncUs: 1e6}, {Type: "B", ComputeUs: 6e6}}})
	}
	sched := &hare.Schedule{}
	for _, j := range inst.Jobs {
		sched.Jobs = append(sched.Jobs, j.ID)
	}
	for g := range 16000 {
		l := hare.Lane{GPU: fmt.Sprint("n/", g)}
		for j := range 100 {
			l.Job = append(l.Job, int32(j))
			l.Rounds = append(l.Rounds, 1_000_000)
			l.PeriodUs = append(l.PeriodUs, 6e6)
			l.StartUs = append(l.StartUs, int64(j)*6e12)
		}
		sched.Lanes = append(sched.Lanes, l)
	}
	res := &hare.Result{Schedule: sched}
	got := drawSVG(t, inst, res, Options{})
	wellFormed(t, got)
	if len(got) > 2_500_000 || !strings.Contains(got, "one GPU in 40 is drawn") {
		t.Errorf("%d bytes", len(got))
	}
	var b bytes.Buffer
	if err := HTML(&b, inst, res, Options{}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 10_000_000 || strings.Contains(b.String(), "is drawn") {
		t.Errorf("page of %d bytes", b.Len())
	}
}

// Names from outside are escaped as text.
func TestEscaping(t *testing.T) {
	const evil = "</title></script><script>alert(1)</script>\u2028&\"'\x00\x01"
	inst := &hare.Instance{Name: evil, Cluster: hare.Cluster{Nodes: []hare.Node{{Name: evil,
		GPUs: []hare.TypeCount{{Type: evil, Count: 1}}}}},
		Jobs: []hare.Job{{ID: evil, WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: evil, ComputeUs: 1e6}}}}}
	res := &hare.Result{Schedule: &hare.Schedule{Jobs: []string{evil},
		Lanes: []hare.Lane{{GPU: evil + "/0", Job: []int32{0}, StartUs: []int64{0}}}}}
	svg := drawSVG(t, inst, res, Options{Title: evil})
	wellFormed(t, svg)
	if strings.Contains(svg, "<script") {
		t.Error("script in SVG")
	}
	var b bytes.Buffer
	if err := HTML(&b, inst, res, Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "<script"); n != 4 {
		t.Errorf("%d scripts in the page, want its own 4", n)
	}
	if strings.Contains(b.String(), "alert(1)<") {
		t.Error("markup from a name in the page")
	}
	if err := PNG(io.Discard, inst, res, Options{}); err != nil {
		t.Error(err)
	}
}

func TestHTML(t *testing.T) {
	inst, res := load(t, "windows.instance.json", "windows.result.json")
	var b bytes.Buffer
	if err := HTML(&b, inst, res, Options{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	var again bytes.Buffer
	if err := HTML(&again, inst, res, Options{}); err != nil || again.String() != text {
		t.Errorf("two writings differ: %v", err)
	}
	for _, outside := range []string{"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest",
		"innerHTML"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var p struct {
		Unit, End int64
		Jobs      [][]any
		Lanes     [][]any
	}
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		t.Fatal(err)
	}
	if p.Unit != 250_000 || p.End != 16_250_000 || len(p.Jobs) != len(inst.Jobs) || len(p.Lanes) != 6 {
		t.Errorf("unit %d, end %d, %d jobs, %d lanes", p.Unit, p.End, len(p.Jobs), len(p.Lanes))
	}
	// The GPU n-0/0 is busy until 2.5 s.
	if got := fmt.Sprintf("%v %v", p.Lanes[0][0], p.Lanes[0][2]); got != "n-0/0 [0 10]" {
		t.Errorf("lane %s", got)
	}
}

// A gang on mixed types holds its fast GPUs until the slow GPUs have synchronised.
func TestMixedHold(t *testing.T) {
	inst := &hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n",
		GPUs: []hare.TypeCount{{Type: "A", Count: 2}, {Type: "B", Count: 1}}}}},
		Jobs: []hare.Job{{ID: "j", Rounds: 3, Tasks: 2, Sync: hare.Gang, Mix: true,
			On: []hare.Profile{{Type: "A", ComputeUs: 2, SyncUs: 1}, {Type: "B", ComputeUs: 9, SyncUs: 1}}}}}
	res := &hare.Result{Schedule: &hare.Schedule{Jobs: []string{"j"}, Lanes: []hare.Lane{
		{GPU: "n/0", Job: []int32{0, 0}, Round: []int64{0, 2}, Rounds: []int64{2, 1}, PeriodUs: []int64{10, 0},
			StartUs: []int64{0, 20}},
		{GPU: "n/1", Job: []int32{0}, Round: []int64{2}, StartUs: []int64{20}},
		{GPU: "n/2", Job: []int32{0}, Rounds: []int64{2}, PeriodUs: []int64{10}, StartUs: []int64{0}},
	}}}
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	if a := s.lanes[0].spans; a[0].holdUs != 10 || a[0].lastUs != 20 || a[1].holdUs != 3 || s.endUs != 23 {
		t.Errorf("spans %+v, end %d", a, s.endUs)
	}
}

func TestBars(t *testing.T) {
	// Two jobs have ten tasks of a tenth of a pixel, then one of ten pixels.
	var spans []span
	for i := range int64(10) {
		spans = append(spans, span{job: int32(i % 3 / 2), rounds: 1, startUs: i, holdUs: 1, lastUs: i + 1})
	}
	spans = append(spans, span{job: 5, rounds: 1, startUs: 10, holdUs: 100, lastUs: 110})
	got := barsOf(spans, 0.1, 1)
	want := []bar{{0, 1, 0, 0, workTone, 0}, {1, 11 - 0.6, 5, 0, workTone, 0}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("bars %v, want %v", got, want)
	}
	// Two rounds of 10 pixels are held through their synchronisation, a fifth of each.
	got = barsOf([]span{{job: 1, rounds: 2, periodUs: 10, holdUs: 10, syncUs: 2, lastUs: 20, gang: true}}, 1, 1)
	want = []bar{{0, 10 - 0.6 - 2, 1, 0, workTone, 0}, {10 - 0.6 - 2, 10 - 0.6, 1, 0, syncTone, 0},
		{10, 20 - 0.6 - 2, 1, 0, workTone, 0}, {20 - 0.6 - 2, 20 - 0.6, 1, 0, syncTone, 0}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("bars %v, want %v", got, want)
	}
}

func TestRefusals(t *testing.T) {
	inst, good := load(t, "three-jobs.instance.json", "three-jobs.result.json")
	lane := func(change func(l *hare.Lane)) *hare.Result {
		l := hare.Lane{GPU: "a/0", Job: []int32{0}, StartUs: []int64{0}}
		change(&l)
		return &hare.Result{Schedule: &hare.Schedule{Jobs: good.Schedule.Jobs, Lanes: []hare.Lane{l}}}
	}
	tests := map[string]*hare.Result{
		"none":     {},
		"nil":      nil,
		"GPU":      lane(func(l *hare.Lane) { l.GPU = "z/0" }),
		"job":      lane(func(l *hare.Lane) { l.Job[0] = 3 }),
		"job -1":   lane(func(l *hare.Lane) { l.Job[0] = -1 }),
		"lengths":  lane(func(l *hare.Lane) { l.StartUs = nil }),
		"columns":  lane(func(l *hare.Lane) { l.Rounds = []int64{1, 1} }),
		"rounds":   lane(func(l *hare.Lane) { l.Rounds = []int64{0} }),
		"start":    lane(func(l *hare.Lane) { l.StartUs[0] = -1 }),
		"too long": lane(func(l *hare.Lane) { l.Rounds = []int64{1 << 52}; l.PeriodUs = []int64{1 << 52} }),
		"tasks":    lane(func(l *hare.Lane) { l.Tasks = []int64{1 << 53} }),
		"type":     lane(func(l *hare.Lane) { l.Job[0] = 2 }), // slurm-4711 has no profile for V100
		"unknown":  {Schedule: &hare.Schedule{Jobs: []string{"nobody"}}},
		"two lanes": {Schedule: &hare.Schedule{Jobs: good.Schedule.Jobs,
			Lanes: []hare.Lane{good.Schedule.Lanes[0], good.Schedule.Lanes[0]}}},
	}
	for name, res := range tests {
		if err := SVG(io.Discard, inst, res, Options{}); err == nil {
			t.Errorf("%s: drawn", name)
		}
		if err := HTML(io.Discard, inst, res, Options{}); err == nil {
			t.Errorf("%s: page written", name)
		}
	}
	for _, opt := range []Options{{Width: 10}, {Width: 1 << 30}, {Scale: 9}, {Scale: -1}} {
		if err := PNG(io.Discard, inst, good, opt); err == nil {
			t.Errorf("%+v: drawn", opt)
		}
	}
	// An error of the writer is returned.
	if err := SVG(full{}, inst, good, Options{}); err == nil {
		t.Error("write error lost")
	}
	// An empty schedule gives a picture of idle GPUs.
	wellFormed(t, drawSVG(t, inst, &hare.Result{Schedule: &hare.Schedule{}}, Options{}))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		end  int64
		want string
	}{
		{1, "0, 1 µs"},
		{7, "0, 1 µs, 2 µs, 3 µs, 4 µs, 5 µs, 6 µs, 7 µs"},
		{3 * second / 2, "0, 200 ms, 400 ms, 600 ms, 800 ms, 1 s, 1.2 s, 1.4 s"},
		{21_620_000, "0, 5 s, 10 s, 15 s, 20 s"},
		{100 * second, "0, 15 s, 30 s, 45 s, 1 min, 1 min 15 s, 1 min 30 s"},
		{33 * minute, "0, 5 min, 10 min, 15 min, 20 min, 25 min, 30 min"},
		{3 * hour, "0, 30 min, 1 h, 1 h 30, 2 h, 2 h 30, 3 h"},
		{60 * hour, "0, 12 h, 24 h, 36 h, 2 d, 2 d 12 h"},
		{40 * day, "0, 10 d, 20 d, 30 d, 40 d"},
		{1 << 53, "0, 20000 d, 40000 d, 60000 d, 80000 d, 100000 d"},
	} {
		var got []string
		for _, x := range ticks(tt.end, 7) {
			got = append(got, x.label)
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%d: %s, want %s", tt.end, s, tt.want)
		}
	}
}

func TestGapWords(t *testing.T) {
	amount := func(us int64) hare.Amount { return hare.Product(1e6, us) }
	for _, tt := range []struct {
		value, bound int64
		want         string
	}{
		{1090, 1000, "at most 9.0 % above the best possible plan"},
		{1090001, 1000000, "at most 9.1 % above the best possible plan"},
		{25000, 1000, "at most 2,400.0 % above the best possible plan"},
		{999, 1000, "value below the bound: not a feasible schedule"},
	} {
		if got := gapWords(amount(tt.value), amount(tt.bound)); got != tt.want {
			t.Errorf("%d / %d: %s", tt.value, tt.bound, got)
		}
	}
}

func TestPalette(t *testing.T) {
	seen := map[string]bool{}
	for j := range int32(27) {
		seen[hex(jobColour(j))] = true
	}
	if len(seen) != 27 || jobColour(27) != jobColour(0) {
		t.Errorf("%d colours", len(seen))
	}
}

// Whatever decodes is drawn or refused, in every format.
func FuzzDraw(f *testing.F) {
	inst := loadInstance(f, "../testdata/examples/windows.instance.json")
	for _, name := range []string{"three-jobs", "windows", "traps"} {
		text, err := os.ReadFile("../testdata/examples/" + name + ".result.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		res, err := wire.DecodeResult(bytes.NewReader(text), wire.Limits{})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := SVG(&b, inst, res, Options{}); err != nil {
			return
		}
		wellFormed(t, b.String())
		if err := HTML(io.Discard, inst, res, Options{}); err != nil {
			t.Fatal(err)
		}
	})
}
