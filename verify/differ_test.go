package verify_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// documents are the documents of one call of a verifier.
type documents struct {
	name             string
	instance, result []byte
	previous, before []byte // nil if not given
}

// goVerdict returns the exit code of hare verify: 0 accepted, 1 refused, 2 not readable.
func goVerdict(p *documents) (code int, said string) {
	inst, err := wire.DecodeInstance(bytes.NewReader(p.instance), wire.Limits{})
	if err != nil {
		return 2, err.Error()
	}
	res, err := wire.DecodeResult(bytes.NewReader(p.result), wire.Limits{})
	if err != nil {
		return 2, err.Error()
	}
	prev := &verify.Previous{}
	if p.previous != nil {
		if prev.Result, err = wire.DecodeResult(bytes.NewReader(p.previous), wire.Limits{}); err != nil {
			return 2, err.Error()
		}
	}
	if p.before != nil {
		if prev.Instance, err = wire.DecodeInstance(bytes.NewReader(p.before), wire.Limits{}); err != nil {
			return 2, err.Error()
		}
	}
	rep := verify.CheckReplan(inst, res, prev)
	if !rep.OK {
		return 1, rep.String()
	}
	return 0, rep.String()
}

// python is hare_verify.py in a process that serves one call after another.
type python struct {
	dir string
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func startPython(t *testing.T) *python {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("PYTHON_REQUIRED") != "" {
			t.Fatal("there is no python3")
		}
		t.Skip("there is no python3")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := &python{dir: t.TempDir()}
	p.cmd = exec.Command(path, filepath.Join("testdata", "verdicts.py"), here)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = p.cmd.Wait()
	})
	return p
}

// verdict returns the exit code of hare_verify.py and its output.
func (py *python) verdict(x *documents) (code int, said string, err error) {
	var args []string
	for _, f := range []struct {
		flag, name string
		text       []byte
	}{{"", "instance", x.instance}, {"", "result", x.result}, {"--previous", "previous", x.previous},
		{"--previous-instance", "before", x.before}} {
		if f.text == nil {
			continue
		}
		path := filepath.Join(py.dir, f.name+".json")
		if err := os.WriteFile(path, f.text, 0o600); err != nil {
			return 0, "", err
		}
		if f.flag != "" {
			args = append(args, f.flag)
		}
		args = append(args, path)
	}
	line, err := json.Marshal(args)
	if err != nil {
		return 0, "", err
	}
	if _, err := py.in.Write(append(line, '\n')); err != nil {
		return 0, "", err
	}
	if !py.out.Scan() {
		return 0, "", fmt.Errorf("hare_verify.py has ended: %w", cmp.Or(py.out.Err(), io.EOF))
	}
	var answer struct {
		Code int
		Said string
	}
	err = json.Unmarshal(py.out.Bytes(), &answer)
	return answer.Code, answer.Said, err
}

// Both verifiers, written independently, give the same verdict on any documents.
func TestVerifiersAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of calls of both take some seconds")
	}
	var pys []*python
	for range min(4, runtime.GOMAXPROCS(0)) {
		pys = append(pys, startPython(t))
	}
	all := soundDocuments(t)
	odd := edgeDocuments(t)
	r := rand.New(rand.NewPCG(2026, 13))
	pool := fieldValues(all)
	for i, base := range slices.Concat(all, odd) {
		each := *mutants
		if i >= len(all) {
			each = (each + r.IntN(5)) / 5 // these documents are many and forged already
		}
		for n := range each {
			m := base
			m.name = fmt.Sprintf("%s, mutant %d", base.name, n)
			which := &m.result
			switch x := r.IntN(12); {
			case x == 0:
				which = &m.instance
			case x == 1 && m.previous != nil:
				which = &m.previous
			case x == 2 && m.before != nil:
				which = &m.before
			case x == 3 && m.previous != nil:
				m.previous, m.before = nil, nil
			}
			var what []string
			*which, what = mutant(r, *which, pool)
			m.name += ": " + strings.Join(what, ", ")
			odd = append(odd, m)
		}
	}
	all = append(all, odd...)
	counts := map[int]int{}
	differ := 0
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, py := range pys {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				x := &all[i]
				ours, oursSaid := goVerdict(x)
				theirs, theirsSaid, err := py.verdict(x)
				mu.Lock()
				counts[ours]++
				switch {
				case err != nil:
					t.Errorf("%s: %v", x.name, err)
				case (ours == 0) == (theirs == 0) && theirs >= 0:
				default:
					if differ++; differ <= 20 {
						t.Errorf("%s:\npackage verify says %d, %.300s\nhare_verify.py says %d, %.600s", x.name, ours,
							oursSaid, theirs,
							theirsSaid)
						keep(t, x, differ)
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls, by exit code %v, %d differ", len(all), counts, differ)
	for code := range 3 {
		if counts[code] < 200 {
			t.Errorf("only %d with exit code %d", counts[code], code)
		}
	}
}

// mutants may be raised for a longer search: go test ./verify -run Agree -mutants 50.
var mutants = flag.Int("mutants", 3, "how many mutants TestVerifiersAgree makes of each set of documents")

// keep writes the documents of a difference to the folder that VERIFY_KEEP names.
func keep(t *testing.T, x *documents, n int) {
	dir := os.Getenv("VERIFY_KEEP")
	if dir == "" {
		return
	}
	for name, text := range map[string][]byte{"instance": x.instance, "result": x.result, "previous": x.previous,
		"before": x.before} {
		if text != nil {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s.json", n, name)), text, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}

func instanceText(t *testing.T, inst *hare.Instance) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func resultText(t *testing.T, res *hare.Result) []byte {
	t.Helper()
	timeless := *res
	timeless.Timing = hare.Timing{} // without times, each run makes the same document
	var b bytes.Buffer
	if err := wire.EncodeResult(&b, &timeless); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// soundDocuments returns results of the solver: plain results, plans for the rest of
// others with and without the previous plan, and forgeries of these.
func soundDocuments(t *testing.T) (out []documents) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 31))
		inst := randomReplanInstance(r)
		if inst.Validate() != nil {
			continue
		}
		opt := quickly
		opt.Bound = []string{hare.MethodMachine, hare.MethodCriticalPath, hare.MethodPrice}[r.IntN(3)]
		res, err := solver.Solve(t.Context(), inst, opt, solver.Config{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if res.Schedule != nil {
			out = append(out, documents{name: fmt.Sprintf("plain %d", seed), instance: instanceText(t, inst),
				result: resultText(t, res)})
		}
	}
	for seed := range uint64(80) {
		for n, x := range replansOf(t, seed+1000) {
			p := documents{
				name:     fmt.Sprintf("replan %d, %d", seed, n),
				instance: instanceText(t, x.inst), before: instanceText(t, x.before),
				result: resultText(t, x.res), previous: resultText(t, x.prev),
			}
			bare := p
			bare.name += " alone"
			bare.previous, bare.before = nil, nil
			out = append(out, p, bare)
			r := rand.New(rand.NewPCG(seed, 37))
			for range 3 {
				f := forgeries[r.IntN(len(forgeries))]
				if res := decoded(t, x.res); f.change(x, res) {
					forged := p
					forged.name += ", forged: " + f.name
					forged.result = resultText(t, res)
					out = append(out, forged)
				}
			}
		}
	}
	return out
}

// edgeDocuments returns documents at the edges of the rules.
func edgeDocuments(t *testing.T) (out []documents) {
	add := func(name, instance, result string) {
		out = append(out, documents{name: name, instance: []byte(instance), result: []byte(result)})
	}
	solved := func(name string, inst *hare.Instance, opt hare.Options, change func(*hare.Result)) {
		res, err := solver.Solve(t.Context(), inst, opt, solver.Config{Workers: 1})
		if err != nil || res.Schedule == nil {
			t.Fatal(name, err)
		}
		change(res)
		out = append(out, documents{name: name, instance: instanceText(t, inst), result: resultText(t, res)})
	}
	// These bounds are sums of more than 300 fractions.
	for _, n := range []int{300, 301, 303, 330} {
		inst := manyEqual(n)
		for _, more := range []int64{-1, 0, 1} {
			for _, method := range []string{hare.MethodMachine, hare.MethodCriticalPath} {
				solved(fmt.Sprintf("%d equal jobs, %s, %+d", n, method, more), inst,
					hare.Options{WorkLimit: 1, Bound: method, Order: "wspt", Assign: "earliest_available"}, func(res *hare.Result) {
						b := exactThirds(int64(n), method).Add(hare.Product(more, 1_000_000))
						res.Bound, res.Certificate.Bound, res.Certificate.Method, res.Termination = &b, b.Bound6(),
							method,
							hare.TerminationWorkLimit
					})
			}
		}
	}
	// These times are exactly 2^53 µs and 2^53 + 1 µs.
	cluster := func(window string) string {
		return `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T":1}` + window + `}]},"jobs":[`
	}
	result := func(value, bound, id string) string {
		return `{"hare":"result/v1","objective":"weighted_jct","value":` + value + `,"bound":` + bound +
			`,"schedule":{"jobs":["` + id + `"],"lanes":[{"gpu":"a/0","job":[0],"start_us":[0]}]},` +
			`"certificate":{"hare":"certificate/v1","method":"critical_path","objective":"weighted_jct","bound":"` + bound +
			`"}}`
	}
	for _, us := range []string{"9007199254.740991", "9007199254.740992", "9007199254.740993"} {
		job := `{"id":"x","on":{"T":{"compute_s":` + us + `}}}]}`
		add("compute "+us, cluster(``)+job, result(us, us, "x"))
		add("compute in a window "+us, cluster(`,"in_service_s":[[0,`+us+`]]`)+job, result(us, us, "x"))
		brief := `{"id":"x","on":{"T":{"compute_s":1}}}]}`
		add("window "+us, cluster(`,"in_service_s":[[0,`+us+`]]`)+brief, result("1", "1.000000", "x"))
		add("window from "+us, cluster(`,"in_service_s":[[0,4],[`+us+`,null]]`)+brief, result("1", "1.000000", "x"))
		add("busy until "+us, cluster(`,"busy":[{"gpu":0,"until_s":`+us+`}]`)+brief, result("1", "1.000000", "x"))
		add("release "+us, cluster(``)+strings.Replace(brief, `"on"`, `"release_s":`+us+`,"on"`, 1),
			result("1", "1.000000", "x"))
		add("weight "+us, cluster(``)+strings.Replace(brief, `"on"`, `"weight":`+us+`,"on"`, 1), result(us, us, "x"))
		add("sync "+us, cluster(``)+strings.Replace(brief, `"compute_s":1`, `"compute_s":1,"sync_s":`+us, 1),
			result("1", "1.000000", "x"))
		free := `{"id":"x","weight":0,"on":{"T":{"compute_s":1}}},{"id":"y","weight":0,"release_s":3,"on":{"T":{"compute_s":`
		for _, left := range []string{"9007199247.740991", "9007199247.740992", "9007199247.740993"} {
			add("4 + 3 + "+left, cluster(`,"in_service_s":[[0,3],[4,null]]`)+free+left+`}}}]}`,
				`{"hare":"result/v1","objective":"weighted_jct","value":0,"schedule":{"jobs":["x","y"]`+
					`,"lanes":[{"gpu":"a/0","job":[0,1],"start_us":[0,4000000]}]}}`)
		}
	}
	for _, count := range []string{"9007199254740991", "9007199254740992", "9007199254740993"} {
		us := count[:10] + "." + count[10:]
		job := `{"id":"x","weight":1,"rounds":` + count + `,"sync":"gang","on":{"T":{"compute_s":0.000001}}}]}`
		add("rounds "+count, cluster(``)+job, strings.Replace(result(us, us, "x"), `"start_us"`,
			`"rounds":[`+count+`],"period_us":[1],"start_us"`, 1))
		add("start "+count, cluster(``)+`{"id":"x","weight":0,"on":{"T":{"compute_s":0.000001}}}]}`,
			strings.Replace(result("0", "0.000000", "x"), `"start_us":[0]`, `"start_us":[`+count+`]`, 1))
		add("prices "+count, cluster(``)+`{"id":"x","on":{"T":{"compute_s":1}}}]}`,
			strings.Replace(result("1", "-10000000000.000000", "x"), `"method":"critical_path"`,
				`"method":"price","grid_us":[0,1],"prices":{"T":[`+count+`]}`, 1))
		add("grid "+count, cluster(``)+`{"id":"x","on":{"T":{"compute_s":1}}}]}`,
			strings.Replace(result("1", "0.500000", "x"), `"method":"critical_path"`,
				`"method":"price","grid_us":[0,`+count+`],"prices":{"T":[0]}`, 1))
	}
	// These certificates of every method are for jobs that can never run.
	for _, method := range []string{`"critical_path"`, `"machine"`, `"price","grid_us":[0,5],"prices":{}`,
		`"price","path":true,"grid_us":[0,5],"prices":{}`} {
		for name, job := range inOrder(map[string]string{
			"gang": `{"id":"x","weight":0,"tasks":2,"sync":"gang","on":{"T":{"compute_s":1}}}`,
			"mix": `{"id":"x","weight":0,"tasks":2,"sync":"gang","mix":true,"on":{"T":{"compute_s":1},` +
				`"U":{"compute_s":1}}}`,
			"rigid":   `{"id":"x","weight":0,"tasks":2,"sync":"rigid","on":{"T":{"compute_s":1}}}`,
			"no type": `{"id":"x","weight":0,"on":{"U":{"compute_s":1}}}`,
			"fits":    `{"id":"x","weight":0,"on":{"T":{"compute_s":1}}}`,
		}) {
			add(name+" by "+method, cluster(``)+job+`]}`,
				strings.Replace(result("0", "-1.000000", "x"), `"critical_path"`,
					method, 1))
		}
	}
	// These documents vary the spelling of bounds, paths, gaps and terminations.
	plain := cluster(``) + `{"id":"x","weight":5,"on":{"T":{"compute_s":1}}}]}`
	for _, bound := range []string{"5", "5.0", "5.000000", "05.000000", "+5.000000", "5.0000000", "5.00000",
		"-0.000000",
		"0.000000", "-1.000000", "5.000001", "4.999999", "", " 5.000000", "5.000000 ", "5e0", "٥.000000",
		"-12345678901234567890123456789012345678901.000000", "-123456789012345678901234567890123456789012.000000"} {
		add("bound "+strconv.Quote(bound), plain, strings.Replace(result("5", "4.000000", "x"), `"bound":"4.000000"`,
			`"bound":"`+bound+`"`, 1))
		add("bound alone "+strconv.Quote(bound), plain,
			strings.Replace(strings.Replace(result("5", "4.000000", "x"), `"bound":4.000000,`, ``, 1),
				`"bound":"4.000000"`,
				`"bound":"`+bound+`"`, 1))
	}
	for _, c := range [][2]string{{"5", "5.000000"}, {"5", "4.000000"}, {"5", "4.999999"}, {"5", "0.000000"},
		{"5", "-1.000000"}, {"5", "null"}} {
		for _, gap := range []string{"0", "0.0", "-0", "0e9", "null", "0.25", "0.250000999999", "0.250001",
			"0.2499990000001", "0.249999000001", "0.000001", "0.0000000000001", "1e-7", "2e-6", `"0"`, "false",
			"1e99"} {
			res := strings.Replace(result(c[0], c[1], "x"), `"schedule"`, `"gap":`+gap+`,"schedule"`, 1)
			if c[1] == "null" {
				res = strings.Replace(res, `"bound":"null"`, `"bound":"1.000000"`, 1)
			}
			add("value "+c[0]+", bound "+c[1]+", gap "+gap, plain, res)
		}
		for _, termination := range []string{`"optimal"`, `"gap"`, `"whatever"`, `""`, "null", "7"} {
			add("value "+c[0]+", bound "+c[1]+", termination "+termination, plain,
				strings.Replace(strings.Replace(result(c[0], c[1], "x"), `"schedule"`,
					`"termination":`+termination+`,"schedule"`,
					1), `"bound":"null"`, `"bound":"1.000000"`, 1))
		}
	}
	for _, more := range []string{`"path":false`, `"path":true`, `"path":null`, `"grid_us":[]`, `"grid_us":[0]`,
		`"prices":{}`, `"prices":{"T":[]}`, `"sizes":{}`, `"sizes":{"T":{}}`, `"step_us":0`, `"step_us":1`,
		`"instance_sha256":null`, `"instance_sha256":""`, `"grid_us":null`, `"hare":"certificate/v1"`} {
		for _, method := range []string{"critical_path", "machine", "price"} {
			add(method+" with "+more, plain, strings.Replace(strings.Replace(result("5", "4.000000", "x"), `"method"`,
				more+`,"method"`, 1), "critical_path", method, 1))
		}
	}
	for _, jobs := range []string{"null", "[]", `[{"id":"x"}]`, `[{"id":"x","start_s":0,"end_s":1}]`,
		`[{"id":"x","start_s":0,"end_s":1.000001}]`, `[{"id":"x","start_s":1}]`, `[{"id":"x"},{"id":"x"}]`,
		`[{"id":"y"}]`,
		`[{"id":"x"},{"id":"y"}]`, `[{}]`, `{}`, `[{"id":"x","start_s":null}]`,
		`[{"id":"x","end_s":null,"more":[]}]`} {
		add("jobs "+jobs, plain, strings.Replace(result("5", "4.000000", "x"), `"schedule"`,
			`"jobs":`+jobs+`,"schedule"`,
			1))
	}
	// These values stand in unknown fields of all documents.
	deep := func(n int) string { return strings.Repeat(`{"d":[`, n/2) + "0" + strings.Repeat(`]}`, n/2) }
	for name, x := range inOrder(map[string]string{
		"a name twice": `{"a":[{"b":1,"b":1}]}`, "a name twice, escaped": `{"b":1,"\u0062":1}`,
		"names that differ": `{"b":1,"B":1}`,
		"510 levels":        deep(510), "512 levels": deep(512), "5000 levels": deep(5000),
		"511 arrays": strings.Repeat("[", 511) +
			strings.Repeat("]", 511), "512 arrays": strings.Repeat("[", 512) + strings.Repeat("]", 512),
		"400 digits": strings.Repeat("7", 400), "401 digits": strings.Repeat("7", 401), "400 characters": "-0." +
			strings.Repeat("7", 395) + "e1", "401 characters": "-0." + strings.Repeat("7", 396) + "e1",
		"half a character": `"\ud800"`, "half a character as name": `{"\ud800":1}`, "a control character": "\"\x01\"",
		"not UTF-8": "\"\xff\"", "NaN": "NaN", "+1": "+1", "01": "01", "1.": "1.", ".5": ".5", "1e": "1e",
		"huge exponent": "1e999999999", "true": "true",
	}) {
		add("result with "+name, plain, strings.Replace(result("5", "4.000000", "x"), `"schedule"`,
			`"unknown":`+x+`,"schedule"`, 1))
		add("metrics with "+name, plain, strings.Replace(result("5", "4.000000", "x"), `"schedule"`,
			`"metrics":`+x+`,"schedule"`, 1))
		add("options with "+name, plain, strings.Replace(result("5", "4.000000", "x"), `"schedule"`,
			`"options":{"seed":`+x+`},"schedule"`, 1))
		add("a name as "+name, strings.Replace(plain, `"cluster"`, `"name":`+x+`,"cluster"`, 1),
			result("5", "4.000000", "x"))
		add("jobs with "+name, plain, strings.Replace(result("5", "4.000000", "x"), `"schedule"`,
			`"jobs":[{"id":"x","more":`+x+`}],"schedule"`, 1))
	}
	for _, pad := range []int{400, 401} {
		zeros := "5." + strings.Repeat("0", pad-2)
		add(fmt.Sprintf("value of %d characters", pad), plain, result(zeros, "4.000000", "x"))
		add(fmt.Sprintf("weight of %d characters", pad), strings.Replace(plain, `"weight":5`, `"weight":`+zeros, 1),
			result("5", "4.000000", "x"))
		add(fmt.Sprintf("start of %d characters", pad), plain, strings.Replace(result("5", "4.000000", "x"),
			`"start_us":[0]`, `"start_us":[0.`+strings.Repeat("0", pad-2)+`]`, 1))
	}
	// These documents vary lines, blanks and trailing text.
	add("lines", strings.Replace(plain, `,"jobs":[{`, "}\n{", 1)[:len(plain)-len(`,"jobs":[`)+len("}\n")-2],
		result("5", "4.000000", "x"))
	add("lanes as lines", plain, strings.Replace(result("5", "4.000000", "x"),
		`{"gpu":"a/0","job":[0],"start_us":[0]}`,
		``, 1)+"\n"+`{"gpu":"a/0","job":[0],"start_us":[0]}`+"\n")
	add("empty", plain, "")
	add("something follows", plain, result("5", "4.000000", "x")+" 7")
	add("a mark of byte order", plain, "\ufeff"+result("5", "4.000000", "x"))
	return out
}

// inOrder iterates over a map by its sorted keys, so that each run of a test makes the
// same documents.
func inOrder(m map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// manyEqual returns n jobs of one second on three GPUs, whose machine bound is a sum of
// thirds.
func manyEqual(n int) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "A", Count: 3}}}}}}
	for i := range n {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}})
	}
	return inst
}

// exactThirds returns the bound of manyEqual: 1/3 + 2/3 + … + n/3, or n, rounded down.
func exactThirds(n int64, method string) hare.Amount {
	if method == hare.MethodCriticalPath {
		return hare.Product(1e6, n*1_000_000)
	}
	return hare.Product(1, n*(n+1)/2*1_000_000_000_000/3).RoundDown()
}

// fieldValues returns the values that fields of the documents have, by name.
func fieldValues(all []documents) map[string][]any {
	out := map[string][]any{}
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(x)) {
				if len(out[name]) < 40 {
					out[name] = append(out[name], x[name])
				}
				walk(x[name])
			}
		case []any:
			for _, y := range x {
				walk(y)
			}
		}
	}
	for i := range all {
		if i%7 == 0 {
			for _, text := range [][]byte{all[i].instance, all[i].result} {
				if x, ok := tree(text); ok {
					walk(x)
				}
			}
		}
	}
	return out
}

func tree(text []byte) (x any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return x, d.Decode(&x) == nil && !d.More()
}

// mutant changes one to three things in a document.
func mutant(r *rand.Rand, text []byte, pool map[string][]any) ([]byte, []string) {
	var done []string
	for range 1 + r.IntN(3)*r.IntN(2) {
		x, ok := tree(text)
		if !ok {
			break
		}
		root := map[string]any{"": x}
		done = append(done, change(r, root, pool))
		out, err := json.Marshal(root[""])
		if err != nil {
			break
		}
		text = out
	}
	return text, done
}

// change changes a value somewhere below root, which holds a document.
func change(r *rand.Rand, root map[string]any, pool map[string][]any) string {
	var parent any = root
	key, index := "", -1
	value := root[""]
	path := ""
	for depth := 0; ; depth++ {
		if depth > 0 && r.IntN(100) < 35 {
			break
		}
		switch x := value.(type) {
		case map[string]any:
			if len(x) == 0 {
				break
			}
			names := slices.Sorted(maps.Keys(x))
			parent, key, index = x, names[r.IntN(len(names))], -1
			value = x[key]
			path += "/" + key
			continue
		case []any:
			if len(x) == 0 {
				break
			}
			parent, index = x, r.IntN(len(x))
			value = x[index]
			path += "/" + strconv.Itoa(index)
			continue
		}
		break
	}
	set := func(to any) {
		if p, ok := parent.([]any); ok {
			p[index] = to
		} else {
			parent.(map[string]any)[key] = to
		}
	}
	what := func(format string, a ...any) string { return fmt.Sprintf(path+": "+format, a...) }
	kinds := []any{nil, true, "x", json.Number("7"), map[string]any{}, []any{}, json.Number("-1"), json.Number("1.5"),
		""}
	switch v := value.(type) {
	case json.Number:
		if r.IntN(3) > 0 {
			to := number(r, string(v))
			set(json.RawMessage(to))
			return what("%s to %.60s", v, to)
		}
	case string:
		if r.IntN(3) > 0 {
			to := word(r, v)
			set(to)
			return what("%.60q to %.60q", v, to)
		}
	case map[string]any:
		switch text, err := json.Marshal(v); {
		case err != nil || r.IntN(3) > 0:
		case r.IntN(2) == 0 && len(v) > 0:
			name, _ := json.Marshal(slices.Sorted(maps.Keys(v))[r.IntN(len(v))])
			set(json.RawMessage("{" + string(name) + ":0," + string(text[1:])))
			return what("%s twice", name)
		default:
			v["unknown"] = json.RawMessage([]string{"1", `{"a":1,"a":2}`,
				strings.Repeat("[", 505) + strings.Repeat("]", 505),
				strings.Repeat("9", 401)}[r.IntN(4)])
			return what("an unknown field")
		}
	case []any:
		switch {
		case len(v) == 0:
		case r.IntN(3) == 0:
			set(append(slices.Clone(v), v[r.IntN(len(v))]))
			return what("an element twice")
		case r.IntN(2) == 0:
			i, j := r.IntN(len(v)), r.IntN(len(v))
			v[i], v[j] = v[j], v[i]
			return what("elements %d and %d exchanged", i, j)
		}
	}
	switch r.IntN(4) {
	case 0:
		if p, ok := parent.(map[string]any); ok && key != "" {
			delete(p, key)
			return what("left out")
		}
	case 1:
		if from := pool[key]; len(from) > 0 && index < 0 {
			set(from[r.IntN(len(from))])
			return what("of another document")
		}
	}
	to := kinds[r.IntN(len(kinds))]
	set(to)
	return what("%v", to)
}

// number returns another number, or the same number in another spelling.
func number(r *rand.Rand, was string) string {
	if n, err := strconv.ParseInt(was, 10, 64); err == nil && n < 1<<60 && r.IntN(3) == 0 {
		return strconv.FormatInt(n+int64(r.IntN(3)-1), 10)
	}
	dotted := was
	if !strings.ContainsAny(was, ".eE") {
		dotted += ".0"
	}
	plain := !strings.ContainsAny(was, "eE")
	list := []string{"0", "-0", "-1", "1", "2", "9007199254740992", "9007199254740993", "9007199254.740992",
		"9007199254.740993", "0.000001", "0.0000001", "1e400", "0e999999999", "1e-999999999", "1e2"}
	if plain {
		list = append(list, was+"e0", dotted+"0", dotted+strings.Repeat("0", 12), dotted+strings.Repeat("0", 400),
			dotted+"E+00")
		if strings.Contains(was, ".") {
			list = append(list, was+"1", was[:len(was)-1]+string('0'+(was[len(was)-1]-'0'+1)%10))
		} else {
			list = append(list, was+".000001", was+"0e-1", was+"0")
		}
	}
	return list[r.IntN(len(list))]
}

// word returns another string.
func word(r *rand.Rand, was string) string {
	list := []string{"", "x", was + "x", strings.ToUpper(was), " " + was, was + "\u00e9", "j0", "n/0", "A", "relaxed",
		"gang", "optimal", strings.Repeat("0", 64)}
	if was != "" {
		list = append(list, was[1:], was[:len(was)-1])
	}
	if strings.Contains(was, ".") {
		list = append(list, "0"+was, "+"+was, was+"0", was[:len(was)-1]+"0", was[:len(was)-1]+"1", "-"+was, "5",
			"-0.000000")
	}
	return list[r.IntN(len(list))]
}
