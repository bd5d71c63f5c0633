package wire_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/wire"
)

const node = `{"name":"a","gpus":{"V100":2}}`

// with wraps jobs into an instance on two V100s.
func with(jobs string) string {
	return `{"hare":"instance/v1","cluster":{"nodes":[` + node + `]},"jobs":[` + jobs + `]}`
}

// on wraps nodes into an instance without jobs.
func on(nodes string) string {
	return `{"hare":"instance/v1","cluster":{"nodes":[` + nodes + `]},"jobs":[]}`
}

const runs = `"on":{"V100":{"compute_s":1}}`

// job wraps the fields of a job that has an id and a profile.
func job(fields string) string { return with(`{"id":"j",` + runs + `,` + fields + `}`) }

// bare wraps the fields of a job that has nothing else.
func bare(fields string) string { return with(`{` + fields + `}`) }

// machine wraps the fields of a node that has a name and two V100s.
func machine(fields string) string { return on(`{"name":"a","gpus":{"V100":2},` + fields + `}`) }

func TestBadInstancesAreNamed(t *testing.T) {
	const nodes, jobs = "/cluster/nodes", "/jobs/0"
	for name, c := range map[string]struct{ text, want string }{
		"empty":                {"", "malformed"},
		"white space":          {" \n\n", "malformed"},
		"truncated":            {with("")[:30], "malformed"},
		"truncated job":        {job(`"weight":1`)[:90], "malformed /jobs/0/id"},
		"not json":             {"hello", "malformed"},
		"brackets":             {strings.Repeat("[", 10<<20), "malformed " + strings.Repeat("/0", 150) + "…"},
		"deep objects":         {strings.Repeat(`{"a":`, 1<<20), "malformed " + strings.Repeat("/a", 150) + "…"},
		"array":                {"[]", "wrong_type"},
		"null":                 {"null", "wrong_type"},
		"two documents":        {with("") + with(""), "malformed"},
		"trailing comma":       {`{"hare":"instance/v1",}`, "malformed"},
		"missing value":        {`{"hare":}`, "malformed /hare"},
		"not utf-8":            {with("{\"id\":\"\xff\"}"), "malformed /jobs/0/id"},
		"byte order mark":      {"\ufeff" + with(""), "malformed"},
		"nothing in it":        {"{}", "unknown_form /hare; missing_field; missing_field"},
		"form":                 {strings.Replace(with(""), "v1", "v2", 1), "unknown_form /hare"},
		"form of another type": {strings.Replace(with(""), `"instance/v1"`, "1", 1), "wrong_type /hare"},
		"objective": {strings.Replace(with(""), `{`, `{"objective":"cost",`, 1),
			"unknown_value /objective"},
		"duplicate key": {strings.Replace(with(""), `{`, `{"hare":"instance/v1",`, 1), "duplicate_name /hare"},
		"duplicate escaped key": {strings.Replace(with(""), `{`, `{"\u0068are":"instance/v1",`, 1),
			"duplicate_name /hare"},
		"duplicate job key": {job(`"weight":1,"weight":2`), "duplicate_name /jobs/0/weight"},
		"unknown":           {strings.Replace(with(""), `{`, `{"clutser":{},`, 1), "unknown_field /clutser"},
		"no jobs":           {`{"hare":"instance/v1","cluster":{"nodes":[` + node + `]}}`, "missing_field"},
		"jobs null":         {strings.Replace(with(""), "[]", "null", 1), "wrong_type /jobs"},
		"jobs of strings":   {with(`"a",3`), "wrong_type /jobs/0; wrong_type /jobs/1"},

		"no cluster":        {`{"hare":"instance/v1","jobs":[]}`, "missing_field"},
		"cluster null":      {`{"hare":"instance/v1","cluster":null,"jobs":[]}`, "wrong_type /cluster"},
		"no nodes field":    {`{"hare":"instance/v1","cluster":{},"jobs":[]}`, "missing_field /cluster"},
		"no nodes":          {on(""), "no_gpus /cluster/nodes"},
		"node of no kind":   {on("7"), "wrong_type /cluster/nodes/0"},
		"no name":           {on(`{"gpus":{"V100":2}}`), "missing_field /cluster/nodes/0/name"},
		"slash":             {on(`{"name":"a/b","gpus":{"V100":2}}`), "bad_name /cluster/nodes/0/name"},
		"no gpus field":     {on(`{"name":"a"}`), "missing_field /cluster/nodes/0/gpus"},
		"no gpus":           {on(`{"name":"a","gpus":{}}`), "missing_field /cluster/nodes/0/gpus"},
		"no gpus of a type": {on(`{"name":"a","gpus":{"V100":0}}`), "out_of_range /cluster/nodes/0/gpus/V100"},
		"half a gpu":        {on(`{"name":"a","gpus":{"V100":0.5}}`), "wrong_type /cluster/nodes/0/gpus/V100"},
		"type without name": {on(`{"name":"a","gpus":{"":1}}`), "bad_name /cluster/nodes/0/gpus/"},
		"type in two places": {on(`{"name":"a","gpus":{"V100":1,"V100":1}}`),
			"duplicate_name /cluster/nodes/0/gpus/V100"},
		"count": {on(`{"name":"a","count":2000000000,"gpus":{"V100":2}}`),
			"too_large /cluster/nodes/0/count"},
		"count 1e999999999": {on(`{"name":"a","count":1e999999999,"gpus":{"V100":2}}`),
			"too_large /cluster/nodes/0/count"},
		"count 0":    {on(`{"name":"a","count":0,"gpus":{"V100":2}}`), "out_of_range /cluster/nodes/0/count"},
		"many gpus":  {on(`{"name":"a","count":1000000,"gpus":{"V100":2}}`), "too_large /cluster/nodes/0"},
		"many types": {on(`{"name":"a","gpus":{"A":1048576,"B":1048576}}`), "too_large /cluster/nodes/0"},
		"same node":  {on(node + "," + node), "duplicate_id /cluster/nodes/1/name"},
		"same copy": {on(`{"name":"a","count":3,"gpus":{"V100":2}},{"name":"a-1","gpus":{"V100":2}}`),
			"duplicate_id /cluster/nodes/1/name"},
		"copies of a copy": {on(`{"name":"a-0","gpus":{"V100":2}},{"name":"a","count":1,"gpus":{"V100":2}}`),
			"duplicate_id /cluster/nodes/1/name"},
		"same faulty node": {on(`{"name":"a"},` + node), "missing_field /cluster/nodes/0/gpus; duplicate_id " +
			"/cluster/nodes/1/name"},

		"overlapping windows": {machine(`"in_service_s":[[5,9],[7,null]]`), "bad_window " + nodes +
			"/0/in_service_s/1"},
		"unordered windows": {machine(`"in_service_s":[[5,9],[1,2]]`), "bad_window " + nodes + "/0/in_service_s/1"},
		"empty window":      {machine(`"in_service_s":[[5,5]]`), "bad_window " + nodes + "/0/in_service_s/0"},
		"backward window":   {machine(`"in_service_s":[[5,4]]`), "bad_window " + nodes + "/0/in_service_s/0"},
		"after forever": {machine(`"in_service_s":[[5,null],[9,12]]`), "bad_window " + nodes +
			"/0/in_service_s/1"},
		"no windows":       {machine(`"in_service_s":[]`), "bad_window " + nodes + "/0/in_service_s"},
		"windows null":     {machine(`"in_service_s":null`), "wrong_type " + nodes + "/0/in_service_s"},
		"half a window":    {machine(`"in_service_s":[[5]]`), "bad_window " + nodes + "/0/in_service_s/0"},
		"window of three":  {machine(`"in_service_s":[[5,6,7]]`), "bad_window " + nodes + "/0/in_service_s/0"},
		"window from null": {machine(`"in_service_s":[[null,6]]`), "wrong_type " + nodes + "/0/in_service_s/0/0"},
		"negative window":  {machine(`"in_service_s":[[-1,6]]`), "out_of_range " + nodes + "/0/in_service_s/0/0"},
		"fine window": {machine(`"in_service_s":[[0,0.0000005]]`), "too_many_decimals " + nodes +
			"/0/in_service_s/0/1"},

		"busy out of range": {machine(`"busy":[{"gpu":2,"until_s":3}]`), "out_of_range " + nodes + "/0/busy/0/gpu"},
		"busy negative":     {machine(`"busy":[{"gpu":-1,"until_s":3}]`), "out_of_range " + nodes + "/0/busy/0/gpu"},
		"busy twice": {machine(`"busy":[{"gpu":1,"until_s":3},{"gpu":1,"until_s":4}]`), "duplicate_id " +
			nodes + "/0/busy/1/gpu"},
		"busy for how long": {machine(`"busy":[{"gpu":1}]`), "missing_field " + nodes + "/0/busy/0"},
		"busy of no gpus": {on(`{"name":"a","gpus":{"V100":-2},"busy":[{"gpu":1,"until_s":3}]}`), "out_of_range " +
			nodes + "/0/gpus/V100"},
		"busy negatively": {machine(`"busy":[{"gpu":1,"until_s":-3}]`), "out_of_range " + nodes +
			"/0/busy/0/until_s"},

		"no id":        {bare(runs), "missing_field /jobs/0/id"},
		"id empty":     {bare(`"id":"",` + runs), "missing_field /jobs/0/id"},
		"id a number":  {bare(`"id":1,` + runs), "wrong_type /jobs/0/id"},
		"duplicate id": {with(`{"id":"j",` + runs + `},{"id":"j",` + runs + `}`), "duplicate_id /jobs/1/id"},
		"sync object": {bare(`"id":"j","on":{"V100":{"compute_s":1,"sync_s":{}}}`),
			"not_allowed /jobs/0/on/V100/sync_s"},
		"nan":              {job(`"weight":NaN`), "malformed /jobs/0/weight"},
		"infinite":         {job(`"weight":-Infinity`), "malformed /jobs/0/weight"},
		"hexadecimal":      {job(`"weight":0x10`), "malformed /jobs/0"},
		"1e309":            {job(`"weight":1e309`), "too_large /jobs/0/weight"},
		"-1e309":           {job(`"weight":-1e309`), "out_of_range /jobs/0/weight"},
		"1e999999999":      {job(`"weight":1e999999999`), "too_large /jobs/0/weight"},
		"1e-999999999":     {job(`"weight":1e-999999999`), "too_many_decimals /jobs/0/weight"},
		"1e" + "9":         {job(`"weight":1e99999999999999999999999`), "too_large /jobs/0/weight"},
		"seven decimals":   {job(`"weight":0.1234567`), "too_many_decimals /jobs/0/weight"},
		"weight negative":  {job(`"weight":-0.000001`), "out_of_range /jobs/0/weight"},
		"weight null":      {job(`"weight":null`), "wrong_type /jobs/0/weight"},
		"weight a string":  {job(`"weight":"1"`), "wrong_type /jobs/0/weight"},
		"weight too large": {job(`"weight":9007199254.740993`), "too_large /jobs/0/weight"},
		"release negative": {job(`"release_s":-1`), "out_of_range /jobs/0/release_s"},
		"rounds a string":  {job(`"rounds":"3"`), "wrong_type /jobs/0/rounds"},
		"rounds 0":         {job(`"rounds":0`), "out_of_range /jobs/0/rounds"},
		"rounds 2^53+1":    {job(`"rounds":9007199254740993`), "too_large /jobs/0/rounds"},
		"rounds -1e30":     {job(`"rounds":-1e30`), "out_of_range /jobs/0/rounds"},
		"tasks 1.5":        {job(`"tasks":1.5`), "wrong_type /jobs/0/tasks"},
		"tasks 0":          {job(`"tasks":0`), "out_of_range /jobs/0/tasks"},
		"tasks relaxed":    {job(`"tasks":2147483648`), "too_large /jobs/0/tasks"},
		"tasks gang":       {job(`"tasks":1048577,"sync":"gang"`), "out_of_range /jobs/0/tasks"},
		"sync":             {job(`"sync":"loose"`), "unknown_value /jobs/0/sync"},
		"sync null":        {job(`"sync":null`), "wrong_type /jobs/0/sync"},
		"mix relaxed":      {job(`"mix":false`), "not_allowed /jobs/0/mix"},
		"mix rigid":        {job(`"mix":true,"sync":"rigid"`), "not_allowed /jobs/0/mix"},
		"mix a number":     {job(`"mix":1`), "wrong_type /jobs/0/mix"},

		"estimate 0":         {job(`"estimate_s":0`), "out_of_range /jobs/0/estimate_s"},
		"estimate negative":  {job(`"estimate_s":-3`), "out_of_range /jobs/0/estimate_s"},
		"estimate large":     {job(`"estimate_s":1e12`), "too_large /jobs/0/estimate_s"},
		"estimate text":      {job(`"estimate_s":"1h"`), "wrong_type /jobs/0/estimate_s"},
		"class a string":     {job(`"class":"bert"`), "wrong_type /jobs/0/class"},
		"class of a number":  {job(`"class":{"user":1}`), "wrong_type /jobs/0/class/user"},
		"class without name": {job(`"class":{"":"ann"}`), "bad_value /jobs/0/class/"},
		"class twice":        {job(`"class":{"a":"b","a":"b"}`), "duplicate_name /jobs/0/class/a"},
		"class of nine": {job(`"class":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}`),
			"too_many /jobs/0/class"},

		"no on":       {bare(`"id":"j"`), "missing_field /jobs/0"},
		"on empty":    {bare(`"id":"j","on":{}`), "missing_field /jobs/0/on"},
		"on null":     {bare(`"id":"j","on":null`), "wrong_type /jobs/0/on"},
		"on a list":   {bare(`"id":"j","on":["V100"]`), "wrong_type /jobs/0/on"},
		"on a number": {bare(`"id":"j","on":{"V100":1.5}`), "wrong_type /jobs/0/on/V100"},
		"on twice": {bare(`"id":"j","on":{"V100":{"compute_s":1},"V100":{"compute_s":1}}`),
			"duplicate_name /jobs/0/on/V100"},
		"on slash": {bare(`"id":"j","on":{"a/b~":{"compute_s":0}}`),
			"out_of_range /jobs/0/on/a~1b~0/compute_s"},
		"on no name":   {bare(`"id":"j","on":{"":{"compute_s":1}}`), "bad_name /jobs/0/on/"},
		"no compute":   {bare(`"id":"j","on":{"V100":{}}`), "missing_field /jobs/0/on/V100"},
		"zero compute": {bare(`"id":"j","on":{"V100":{"compute_s":0}}`), "out_of_range /jobs/0/on/V100/compute_s"},
		"minus zero": {bare(`"id":"j","on":{"V100":{"compute_s":-0.0}}`),
			"out_of_range /jobs/0/on/V100/compute_s"},
		"negative sync": {bare(`"id":"j","on":{"V100":{"compute_s":1,"sync_s":-1}}`),
			"out_of_range /jobs/0/on/V100/sync_s"},
		"profile unknown": {bare(`"id":"j","on":{"V100":{"compute_s":1,"synk_s":1}}`),
			"unknown_field /jobs/0/on/V100/synk_s"},

		"too long":         {job(`"rounds":9007199254740992`), "too_large " + jobs},
		"too wide":         {job(`"rounds":4503599627,"tasks":3`), "too_large " + jobs},
		"gangs count once": {job(`"rounds":9007199255,"tasks":3,"sync":"gang"`), "too_large " + jobs},
		"release and work": {job(`"rounds":2,"release_s":9007199253.740992`), "too_large " + jobs},
		"window and work": {strings.Replace(job(`"rounds":2`), `"gpus"`,
			`"in_service_s":[[0,5],[9007199253.740992,null]],"gpus"`, 1), "too_large " + jobs},
		"late cluster": {`{"hare":"instance/v1","jobs":[{"id":"j",` + runs +
			`}],"cluster":{"nodes":[{"name":"a","gpus":{"V100":1},"busy":[{"gpu":0,"until_s":9007199254.740992}]}]}}`,
			"too_large " + jobs},
		"second is too much": {with(`{"id":"a","release_s":9007199253.5,"on":{"T":{"compute_s":0.1}}},{"id":"b",` +
			`"rounds":2,` + runs + `},{"id":"c",` + runs + `}`),
			"too_large /jobs/1"},
		"weights": {with(strings.Repeat(`{"id":"j","weight":9007199254},`, 2) + `{"id":"k","weight":-1}`),
			"missing_field /jobs/0; missing_field /jobs/1; duplicate_id /jobs/1/id; out_of_range /jobs/2/weight; " +
				"missing_field /jobs/2"},

		"a faulty node and more": {on(`{"nam":"a","count":0,"gpus":{"V100":1,"T4":-1},"in_service_s":[[5,4],[2,3],` +
			`[1,2]],"busy":[{"gpu":7,"until_s":1},{"gpu":-7,"until_s":1}]},{"name":"/","gpus":[]}`),
			"unknown_field /cluster/nodes/0/nam; out_of_range /cluster/nodes/0/count; out_of_range " +
				"/cluster/nodes/0/gpus/T4; out_of_range /cluster/nodes/0/busy/1/gpu; " +
				"missing_field /cluster/nodes/0/name; bad_window /cluster/nodes/0/in_service_s/0; bad_window " +
				"/cluster/nodes/0/in_service_s/2; wrong_type /cluster/nodes/1/gpus; bad_name " +
				"/cluster/nodes/1/name"},
		"faulty jobs and more": {with(`{"id":"","weight":-1,"rouns":3,` + runs +
			`},{"id":"k","within":["j"],"mix":false,"on":{"V100":{"compute_s":0,"sync_s":{}},"T4":{}}},{"id":"k"}`),
			"out_of_range /jobs/0/weight; unknown_field /jobs/0/rouns; missing_field /jobs/0/id; wrong_type " +
				"/jobs/1/within; out_of_range /jobs/1/on/V100/compute_s; " +
				"missing_field /jobs/1/on/T4; not_allowed /jobs/1/mix; not_allowed /jobs/1/on/V100/sync_s; " +
				"missing_field /jobs/2; duplicate_id /jobs/2/id"},
		"a faulty beginning, then nonsense": {with(`{"id":"j","weight":-1,` + runs + `}]`),
			"out_of_range /jobs/0/weight; malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := wire.DecodeInstance(strings.NewReader(c.text), wire.Limits{})
			if got := haretest.Faults(err); got != c.want {
				t.Errorf("got  %s\nwant %s\n(%v)", got, c.want, err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestReservedNamesAreRefused(t *testing.T) {
	for _, name := range []string{"shapes", "durations", "reshape_s", "within"} {
		for where, text := range map[string]string{
			"/" + name:                 strings.Replace(with(""), "{", `{"`+name+`":1,`, 1),
			"/cluster/" + name:         strings.Replace(with(""), `{"nodes"`, `{"`+name+`":1,"nodes"`, 1),
			"/cluster/nodes/0/" + name: machine(`"` + name + `":1`),
			"/jobs/0/on/V100/" + name:  bare(`"id":"j","on":{"V100":{"compute_s":1,"` + name + `":{"x":[1]}}}`),
		} {
			_, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
			if got, want := haretest.Faults(err), "not_supported "+where; got != want {
				t.Errorf("got %s, want %s", got, want)
			} else if !strings.Contains(err.Error(), "not supported by this version") {
				t.Errorf("%v does not say that this version does not support it", err)
			}
		}
	}
}

func TestFaultsNameTheRemedy(t *testing.T) {
	for text, want := range map[string]string{
		job(`"wieght":1`):         `did you mean "weight"?`,
		job(`"release":1`):        `did you mean "release_s"?`,
		job(`"xyzzy":1`):          "the known fields are id, weight",
		job(`"weight":0.1234567`): "round it to millionths",
		on(""):                    "give at least one node",
		with("")[:30]:             "cut off",
		" ":                       "the document is empty",
		"{\n\"hare\":\n]":         "(line 3)",
		"{\n\n\n\"hare\" 1}":      "(line 4)",
		with("")[:40] + "\n\n":    "(line 3)",
		bare(`"id":"j"`):          `{"V100": {"compute_s": 1.2}}`,
		job(`"` + strings.Repeat("é", 99) + `":1`): "…",
	} {
		_, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", text, err, want)
		}
	}
}

func TestManyFaultsEnd(t *testing.T) {
	_, err := wire.DecodeInstance(strings.NewReader(with(strings.TrimSuffix(strings.Repeat(`{"weight":-1},`, 5000),
		","))), wire.Limits{})
	var all hare.InvalidErrors
	if !errors.As(err, &all) || len(all) != 101 || all[100].Code != "too_many_faults" {
		t.Fatalf("got %d faults, %v", len(all), err)
	}
}

func TestTooLongIsSaid(t *testing.T) {
	text := with("")
	if _, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{MaxBytes: int64(len(text))}); err != nil {
		t.Errorf("a document of exactly the limit: %v", err)
	}
	for name, text := range map[string]string{"whole": text, "space": text[:len(text)-1] + " }", "nonsense": "x" +
		text, "spaces": strings.Repeat(" ", 999)} {
		_, err := wire.DecodeInstance(iotest.OneByteReader(strings.NewReader(text)),
			wire.Limits{MaxBytes: int64(len(with(""))) - 1})
		if got := haretest.Faults(err); got != wire.CodeBodyTooLarge {
			t.Errorf("%s: got %s (%v)", name, got, err)
		}
	}
	// Endless input ends.
	_, err := wire.DecodeResult(endless{}, wire.Limits{MaxBytes: 1 << 20})
	if got := haretest.Faults(err); got != wire.CodeBodyTooLarge {
		t.Errorf("got %s", got)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '7'
	}
	return len(p), nil
}

func TestReadErrorsPassThrough(t *testing.T) {
	broken := errors.New("the line went dead")
	for cut := range len(with("")) {
		r := io.MultiReader(strings.NewReader(with("")[:cut]), iotest.ErrReader(broken))
		if _, err := wire.DecodeInstance(r, wire.Limits{}); err != broken {
			t.Fatalf("after %d bytes: got %v", cut, err)
		}
	}
}

// Hostile documents must not take memory beyond their own size.
func TestMemoryIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":  strings.Repeat("[", 10<<20),
		"exponents": job(`"weight":1e999999999,"rounds":1e999999999,"release_s":0e999999999`),
		"digits":    job(`"weight":` + strings.Repeat("9", 1<<20)),
		"count":     on(`{"name":"a","count":1048576,"gpus":{"A":1048576}}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no fault", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s: took %d MiB", name, took>>20)
		}
	}
}

func TestLinesAreInstancesToo(t *testing.T) {
	whole := with(`{"id":"j",` + runs + `},{"id":"k","on":{"V100":{"compute_s":2}}}`)
	lines := `{"hare":"instance/v1","cluster":{"nodes":[` + node + `]}}
{"id":"j","on":{"V100":{"compute_s":1}}}
{"id":"k","on":{"V100":{"compute_s":2}}}
`
	a, err := wire.DecodeInstance(strings.NewReader(whole), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := wire.DecodeInstance(iotest.HalfReader(strings.NewReader(lines)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wire.Canonical(a), wire.Canonical(b)) {
		t.Error("the two forms differ")
	}
	for more, want := range map[string]string{
		`{"id":"l"}`:                     "missing_field /jobs/2",
		`{"id":"j",` + runs + `}`:        "duplicate_id /jobs/2/id",
		`{"id":"l","weight":-1}` + "\n7": "out_of_range /jobs/2/weight; missing_field /jobs/2; wrong_type /jobs/3",
		`{"id":"l",`:                     "malformed /jobs/2",
		`{"id":"l","on":{"V100":{"compute_s":0,"sync_s":1}}}`: "out_of_range /jobs/2/on/V100/compute_s",
		`{"id":"l","rounds":9007199254740992,` + runs + `}`:   "too_large /jobs/2",
	} {
		_, err = wire.DecodeInstance(strings.NewReader(lines+more), wire.Limits{})
		if got := haretest.Faults(err); got != want {
			t.Errorf("%s: got %s, want %s", more, got, want)
		}
	}
}
