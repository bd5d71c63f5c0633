package verify_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

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
		r := rand.New(rand.NewPCG(seed+otherDocuments(), 31))
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
	first, second := sameRests(t, 10_500_000)
	for _, x := range []*replanCase{first, second} {
		p := documents{name: fmt.Sprintf("rest that is the whole, at %d", x.res.Replan.AtUs),
			instance: instanceText(t, x.inst), result: resultText(t, x.res), previous: resultText(t, x.prev)}
		bare := p
		bare.previous = nil
		// Each stands here several times, since each is changed in a few ways.
		out = append(out, p, bare, p, bare, p, bare, p, bare)
		// Nobody checks the certificate of the previous result, but both verifiers must be able to read it.
		for _, data := range []string{`"sizes":{"A":{"2":[1]}}`, `"sizes":{"A":{}}`, `"sizes":{}`, `"after":{"x":{"y":1}}`,
			`"after":{"x":{}}`, `"pools":[{"cpus":"A","prices":[1]}]`, `"pools":[]`, `"prices":{"A":[1]}`} {
			for _, method := range []string{hare.MethodPrice, hare.MethodMachine, "rice"} {
				other := p
				other.name += ", previous certificate " + method + " with " + data
				other.previous = bytes.Replace(p.previous, []byte(`"schedule"`), fmt.Appendf(nil, `"certificate":`+
					`{"hare":"certificate/v1","method":%q,"objective":"weighted_jct","bound":"1.000000",%s},"schedule"`,
					method, data), 1)
				out = append(out, other)
			}
		}
	}
	for seed := range uint64(180) {
		of, name := replansOf, "replan"
		switch {
		case seed >= 155:
			of, name = shapedReplansOf, "replan with shapes"
		case seed >= 130:
			of, name = levelledReplansOf, "replan with levels"
		case seed >= 80:
			of, name = ruledReplansOf, "replan with rules"
		}
		for n, x := range of(t, seed+1000+otherDocuments()) {
			p := documents{
				name:     fmt.Sprintf("%s %d, %d", name, seed, n),
				instance: instanceText(t, x.inst), before: instanceText(t, x.before),
				result: resultText(t, x.res), previous: resultText(t, x.prev),
			}
			bare := p
			bare.name += " alone"
			bare.previous, bare.before = nil, nil
			out = append(out, p, bare)
			r := rand.New(rand.NewPCG(seed+otherDocuments(), 37))
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
	// A job of which no work is left has no entries, and stands in schedule.jobs all the same.
	ended := cluster(``) + `{"id":"y","sync":"rigid","progress":{"gpus":["a/0"],"elapsed_s":1},` +
		`"on":{"T":{"compute_s":2}}}]}`
	for _, jobs := range []string{`["y"]`, `[]`, `["y","y"]`, `["x"]`} {
		add("schedule.jobs "+jobs, ended, `{"hare":"result/v1","objective":"weighted_jct","value":0,"constant":1,`+
			`"schedule":{"jobs":`+jobs+`,"lanes":[]}}`)
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
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("n", "A", 3)}}}
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
