package verify_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Each rule of docs/reference/certificate.md is tested on a document that keeps it and on one that
// does not. TestVerifiersAgree holds hare_verify.py to the same rules.
func TestWhatIsRequired(t *testing.T) {
	const inst = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T":1}}]},` +
		`"jobs":[{"id":"x","weight":5,"on":{"T":{"compute_s":1}}}]}`
	const wide = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T":1}}]},` +
		`"jobs":[{"id":"x","weight":0,"tasks":2,"sync":"gang","on":{"T":{"compute_s":1}}}]}`
	parsed, err := wire.DecodeInstance(strings.NewReader(inst), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sha := wire.SHA256(parsed)
	doc := func(fields, certificate string) string {
		if certificate != "" {
			certificate = `,"certificate":{"hare":"certificate/v1","objective":"weighted_jct",` + certificate + `}`
		}
		return `{"hare":"result/v1","objective":"weighted_jct","value":5,` + fields +
			`"schedule":{"jobs":["x"],"lanes":[{"gpu":"a/0","job":[0],"start_us":[0]}]}` + certificate + `}`
	}
	const four, five = `"method":"machine","bound":"4.000000"`, `"method":"machine","bound":"5.000000"`
	for _, c := range []struct {
		name, inst, result string
		code               int
	}{
		{"optimal", inst, doc(`"bound":5,"gap":0,"termination":"optimal",`, five), 0},
		{"optimal, the bound below", inst, doc(`"bound":4,"termination":"optimal",`, five), 1},
		{"optimal, the certificate's bound below", inst, doc(`"bound":4,"termination":"optimal",`, four), 1},
		{"optimal without a bound", inst, doc(`"termination":"optimal",`, five), 1},
		{"optimal without a certificate", inst, doc(`"termination":"optimal",`, ""), 1},
		{"gap 0, equal", inst, doc(`"bound":5,"gap":0,`, five), 0},
		{"gap 0, a bound of a millionth less", inst, doc(`"bound":4.999999,"gap":0,`, five), 1},
		{"a gap of a millionth, equal", inst, doc(`"bound":5,"gap":0.0000001,`, five), 1},
		{"gap of a millionth", inst, doc(`"bound":4.999999,"gap":0.000001,`, five), 0},
		{"gap rounded down", inst, doc(`"bound":4,"gap":0.249999000001,`, five), 0},
		{"gap two millionths off", inst, doc(`"bound":4,"gap":0.249998,`, five), 1},
		{"gap null, a useful bound", inst, doc(`"bound":4,"gap":null,`, five), 1},
		{"gap null, no bound", inst, doc(`"bound":null,"gap":null,`, five), 0},
		{"gap null, a bound of 0", inst, doc(`"bound":0,"gap":null,`, five), 0},
		{"gap, a bound of 0", inst, doc(`"bound":0,"gap":1,`, five), 1},
		{"a bound without a certificate", inst, doc(`"bound":4,`, ""), 1},
		{"no bound and no certificate", inst, doc(`"bound":null,`, ""), 0},
		{"a bound above the certificate's", inst, doc(`"bound":4.5,`, four), 1},
		{"a certificate without a bound", inst, doc(``, `"method":"machine"`), 1},
		{"a certificate that states too much", inst, doc(``, `"method":"machine","bound":"5.000001"`), 1},
		{"bound 5", inst, doc(``, `"method":"machine","bound":"5"`), 2},
		{"bound 5.0", inst, doc(``, `"method":"machine","bound":"5.0"`), 2},
		{"bound 05.000000", inst, doc(``, `"method":"machine","bound":"05.000000"`), 2},
		{"bound -0.000000", inst, doc(``, `"method":"machine","bound":"-0.000000"`), 2},
		{"path false of machine", inst, doc(``, `"path":false,`+four), 0},
		{"path false of critical_path", inst, doc(``, `"path":false,"method":"critical_path","bound":"4.000000"`), 0},
		{"path of machine", inst, doc(``, `"path":true,`+four), 1},
		{"path of critical_path", inst, doc(``, `"path":true,"method":"critical_path","bound":"4.000000"`), 1},
		{"no grid", inst, doc(``, `"grid_us":[],"prices":{},"sizes":{},`+four), 0},
		{"sizes of machine", inst, doc(``, `"sizes":{"T":{}},`+four), 2},
		{"a gang that is too wide, path", wide, doc(``,
			`"path":true,"method":"price","bound":"-1.000000","grid_us":[0,1]`),
			1},
		{"a gang that is too wide, no path", wide,
			doc(``, `"path":false,"method":"price","bound":"-1.000000","grid_us":[0,1]`), 1},
		{"jobs", inst, doc(`"jobs":[{"id":"x","start_s":0,"end_s":1}],`, ""), 0},
		{"no jobs", inst, doc(`"jobs":[],`, ""), 0},
		{"another job", inst, doc(`"jobs":[{"id":"y"}],`, ""), 1},
		{"a job twice", inst, doc(`"jobs":[{"id":"x"},{"id":"x"}],`, ""), 1},
		{"another end", inst, doc(`"jobs":[{"id":"x","end_s":1.000001}],`, ""), 1},
		{"its hash", inst, doc(`"instance_sha256":"`+sha+`",`, ""), 0},
		{"another hash", inst, doc(`"instance_sha256":"`+strings.Repeat("0", 64)+`",`, ""), 1},
		{"an empty hash", inst, doc(`"instance_sha256":"",`, ""), 2},
		{"no hash", inst, doc(`"instance_sha256":null,`, ""), 0},
		{"its hash and a replan of anything", inst, doc(`"instance_sha256":"`+sha+`","replan":{"constant":7},`, ""),
			0},
		{"a replan without a hash", inst, doc(`"replan":{"at_s":0,"constant":0,"instance_sha256":"`+sha+`"},`, ""), 1},
		{"a replan of the wrong kind", inst, doc(`"instance_sha256":"`+sha+`","replan":7,`, ""), 2},
		{"a name twice inside", inst, doc(`"unknown":{"a":1,"a":1},`, ""), 2},
		{"511 levels inside", inst, doc(`"unknown":`+strings.Repeat("[", 511)+strings.Repeat("]", 511)+`,`, ""), 0},
		{"512 levels inside", inst, doc(`"unknown":`+strings.Repeat("[", 512)+strings.Repeat("]", 512)+`,`, ""), 2},
		{"400 digits inside", inst, doc(`"unknown":`+strings.Repeat("1", 400)+`,`, ""), 0},
		{"401 digits inside", inst, doc(`"unknown":`+strings.Repeat("1", 401)+`,`, ""), 2},
	} {
		if code, said := goVerdict(&documents{instance: []byte(c.inst), result: []byte(c.result)}); code != c.code {
			t.Errorf("%s: %d, want %d: %s", c.name, code, c.code, said)
		}
	}
	left := strings.Replace(inst, `"jobs":[`, `"jobs":[{"id":"y","weight":0,"release_s":1,"on":{"T":{"compute_s":1}}},`,
		1)
	two := `{"hare":"result/v1","objective":"weighted_jct","value":5,"jobs":[{"id":"x"}],"schedule":{"jobs":["x","y"]` +
		`,"lanes":[{"gpu":"a/0","job":[0,1],"start_us":[0,1000000]}]}}`
	if code, said := goVerdict(&documents{instance: []byte(left), result: []byte(two)}); code != 1 ||
		!strings.Contains(said, "leaves out 1") {
		t.Errorf("a job that is left out: %d, %s", code, said)
	}
}

// A bound that is a sum of many fractions is decided by the exact sum if the rounded sum
// cannot decide.
func TestSumsOfManyFractions(t *testing.T) {
	for _, c := range []struct {
		jobs  int
		bound string
		ok    bool
	}{
		{303, "15352.000000", true},
		{303, "15351.999999", true},
		{303, "15352.000001", false},
		{304, "15453.333333", true}, // the sum is 15453 1/3
		{304, "15453.333334", false},
		{300, "15050.000000", true},
		{300, "15050.000001", false},
	} {
		inst := manyEqual(c.jobs)
		cert := &hare.Certificate{Method: hare.MethodMachine, Objective: hare.ObjectiveWeightedJCT, Bound: c.bound}
		_, err := verify.Prove(t.Context(), inst, cert)
		if (err == nil) != c.ok {
			t.Errorf("%d jobs, bound %s: %v", c.jobs, c.bound, err)
		}
	}
}
