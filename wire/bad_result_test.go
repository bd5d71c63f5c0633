package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/wire"
)

// faults1 is faults for a single fault.
func faults1(err error) string {
	var one *hare.InvalidError
	if !errors.As(err, &one) {
		return haretest.Faults(err)
	}
	return one.Code + " " + one.Pointer
}

func TestBadResultsAreNamed(t *testing.T) {
	res := func(fields string) string { return `{"hare":"result/v1",` + fields + `}` }
	lane := func(fields string) string {
		return res(`"schedule":{"jobs":["j","k"],"lanes":[{"gpu":"a/0",` + fields + `}]}`)
	}
	cert := func(fields string) string {
		return res(`"certificate":{"hare":"certificate/v1","method":"price",` + fields + `}`)
	}
	re := func(fields string) string { return res(`"replan":{` + fields + `}`) }
	long := func(n int) string { return "0." + strings.Repeat("0", n-2) }
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	sha := strings.Repeat("0123456789abcdef", 4)
	const ok = `"job":[0,1],"start_us":[0,5]`
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "malformed"},
		"another form":  {`{"hare":"instance/v1"}`, "unknown_form /hare"},
		"form left out": {`{}`, "unknown_form /hare"},
		"array":         {`[]`, "wrong_type"},
		"unknown fields": {res(`"quota":{"after":[1]},"xyz":null,"metrics":{"neu":1},"jobs":[{"id":"j",` +
			`"end_s":1,"neu":2}]`), ""},
		"odd information": {res(`"metrics":7,"options":{"seed":"x","gap":null},"engine":[],"timing":"",` +
			`"reasons":{},"tasks":{"a":1}`), ""},
		"absent parts":      {res(`"schedule":null,"certificate":null,"value":null,"bound":null`), ""},
		"value a string":    {res(`"value":"1"`), "wrong_type /value"},
		"value too fine":    {res(`"value":0.0000000000001`), "bad_amount /value"},
		"value too large":   {res(`"value":1e999999999`), "bad_amount /value"},
		"end negative":      {res(`"jobs":[{"id":"j","end_s":-1}]`), "out_of_range /jobs/0/end_s"},
		"seed":              {res(`"seed":1.5`), "wrong_type /seed"},
		"duplicate":         {res(`"schedule":null,"schedule":null`), "duplicate_name /schedule"},
		"schedule a string": {res(`"schedule":"x"`), "wrong_type /schedule"},
		"schedule empty":    {res(`"schedule":{}`), "missing_field /schedule; missing_field /schedule"},
		"schedule unknown":  {res(`"schedule":{"jobs":[],"lane":[],"lanes":[]}`), "unknown_field /schedule/lane"},
		"lane":              {lane(ok), ""},
		"spaced lane":       {lane(`"job" : [ 0 , 1 ] , "start_us":[0,` + "\n\t" + `5]`), ""},
		"other numbers":     {lane(`"job":[0,1.0],"start_us":[-0,5e3]`), ""},
		"lane unknown":      {lane(ok + `,"starts_us":[0]`), "unknown_field /schedule/lanes/0/starts_us"},
		"lane null":         {lane(`"job":[0,null],"start_us":[0,5]`), "out_of_range /schedule/lanes/0/job/1"},
		"lane nested":       {lane(`"job":[0,[1]],"start_us":[0,5]`), "out_of_range /schedule/lanes/0/job/1"},
		"lane string":       {lane(`"job":[0,"1,2"],"start_us":[0,5]`), "out_of_range /schedule/lanes/0/job/1"},
		"lane negative":     {lane(`"job":[0,1],"start_us":[0,-5]`), "out_of_range /schedule/lanes/0/start_us/1"},
		"lane half":         {lane(`"job":[0,1],"start_us":[0.5,5]`), "out_of_range /schedule/lanes/0/start_us/0"},
		"lane large": {lane(`"job":[0,1],"start_us":[0,9007199254740993]`),
			"out_of_range /schedule/lanes/0/start_us/1"},
		"lane huge": {lane(`"job":[0,1],"start_us":[0,18446744073709551616]`),
			"out_of_range /schedule/lanes/0/start_us/1"},
		"lane 1e999999999": {lane(`"job":[0,1],"start_us":[0,1e999999999]`),
			"out_of_range /schedule/lanes/0/start_us/1"},
		"lane unequal":       {lane(`"job":[0,1],"start_us":[0]`), "unequal_columns /schedule/lanes/0"},
		"lane unequal tasks": {lane(ok + `,"tasks":[1,1,1]`), "unequal_columns /schedule/lanes/0"},
		"lane empty tasks":   {lane(ok + `,"tasks":[]`), "unequal_columns /schedule/lanes/0"},
		"lane without job":   {lane(`"start_us":[0]`), "missing_field /schedule/lanes/0"},
		"lane without start": {lane(`"job":[]`), "missing_field /schedule/lanes/0"},
		"lane column null":   {lane(ok + `,"tasks":null`), "wrong_type /schedule/lanes/0/tasks"},
		"no such job":        {lane(`"job":[0,2],"start_us":[0,5]`), "out_of_range /schedule/lanes/0/job/1"},
		"job 2^31":           {lane(`"job":[0,2147483648],"start_us":[0,5]`), "out_of_range /schedule/lanes/0/job/1"},
		"lanes of numbers": {res(`"schedule":{"jobs":[],"lanes":[7,{"gpu":"a","job":[0],"start_us":[0]}]}`),
			"wrong_type /schedule/lanes/0; out_of_range /schedule/lanes/1/job/0"},
		"lines": {res(`"schedule":{"jobs":["j"],"lanes":[]}`) + "\n" +
			`{"gpu":"a/0","job":[0],"start_us":[0]}` + "\n", ""},
		"line unknown": {res(`"schedule":{"jobs":["j"],"lanes":[]}`) +
			`{"gpu":"a/0","job":[0],"start_us":[0]}{"gpus":1}`, "unknown_field /schedule/lanes/1/gpus"},
		"line no such job": {res(`"schedule":{"jobs":["j"],"lanes":[]}`) + `{"gpu":"a/0","job":[1],"start_us":[0]}`,
			"out_of_range /schedule/lanes/0/job/0"},
		"lines of nothing":   {res(`"value":1`) + `{"gpu":"a/0","job":[0],"start_us":[0]}`, "malformed"},
		"truncated column":   {lane(`"job":[0,1`)[:70], "malformed /schedule/lanes/0"},
		"certificate":        {cert(`"path":true,"bound":"1.000000","grid_us":[0,5],"prices":{"V100":[3]}`), ""},
		"certificate form":   {res(`"certificate":{"hare":"certificate/v2"}`), "unknown_form /certificate/hare"},
		"certificate field":  {cert(`"price":{}`), "unknown_field /certificate/price"},
		"certificate bound":  {cert(`"bound":1.5`), "wrong_type /certificate/bound"},
		"bound nonsense":     {cert(`"bound":"one"`), "bad_amount /certificate/bound"},
		"price negative":     {cert(`"prices":{"V100":[-1]}`), "out_of_range /certificate/prices/V100/0"},
		"price twice":        {cert(`"prices":{"V100":[1],"V100":[1]}`), "duplicate_name /certificate/prices/V100"},
		"path a number":      {cert(`"path":1`), "wrong_type /certificate/path"},
		"hash":               {res(`"instance_sha256":"` + sha + `"`), ""},
		"hash null":          {res(`"instance_sha256":null`), ""},
		"hash empty":         {res(`"instance_sha256":""`), "bad_hash /instance_sha256"},
		"hash upper case":    {res(`"instance_sha256":"` + strings.ToUpper(sha) + `"`), "bad_hash /instance_sha256"},
		"hash short":         {cert(`"instance_sha256":"` + sha[1:] + `"`), "bad_hash /certificate/instance_sha256"},
		"hash a number":      {re(`"instance_sha256":5`), "wrong_type /replan/instance_sha256"},
		"hash of a replan":   {re(`"instance_sha256":""`), "bad_hash /replan/instance_sha256"},
		"jobs null":          {res(`"jobs":null`), ""},
		"unknown twice":      {res(`"x":{"y":[{"z":1,"z":2}]}`), "duplicate_name /x/y/0/z"},
		"unknown kind twice": {res(`"metrics":[{"z":1,"z":2}]`), "duplicate_name /metrics/0/z"},
		"escaped twice":      {res(`"x":{"y":1,"\u0079":2}`), "duplicate_name /x/y"},
		"511 levels more":    {res(`"x":` + deep(511)), ""},
		"512 levels more":    {res(`"x":` + deep(512)), "malformed /x" + strings.Repeat("/0", 149) + "…"},
		"5000 levels": {res(`"options":{"x":` + deep(5000) + `}`), "malformed /options/x" +
			strings.Repeat("/0", 145) + "…"},
		"number of 400": {res(`"x":` + long(400)), ""},
		"number of 401": {res(`"x":` + long(401)), "too_long /x"},
		"value of 400":  {res(`"value":` + long(400)), ""},
		"value of 401":  {res(`"value":` + long(401)), "too_long /value"},
		"metric of 401": {res(`"metrics":{"makespan_s":` + long(401) + `}`), "too_long /metrics/makespan_s"},
		"lane of 400":   {lane(`"job":[0,1],"start_us":[0,` + long(400) + `]`), ""},
		"lane of 401": {lane(`"job":[0,1],"start_us":[0,` + long(401) + `]`),
			"out_of_range /schedule/lanes/0/start_us/1"},
		"zero with exponent": {res(`"value":0e999999999,"bound":0.00000e-400`), ""},
		"end 2^53":           {res(`"jobs":[{"id":"j","end_s":9007199254.740992}]`), ""},
		"end 2^53+1":         {res(`"jobs":[{"id":"j","end_s":9007199254.740993}]`), "too_large /jobs/0/end_s"},
		"bound 5":            {cert(`"bound":"5"`), "bad_amount /certificate/bound"},
		"bound 5.0":          {cert(`"bound":"5.0"`), "bad_amount /certificate/bound"},
		"bound 05":           {cert(`"bound":"05.000000"`), "bad_amount /certificate/bound"},
		"bound +5":           {cert(`"bound":"+5.000000"`), "bad_amount /certificate/bound"},
		"bound of seven":     {cert(`"bound":"5.0000000"`), "bad_amount /certificate/bound"},
		"bound -0":           {cert(`"bound":"-0.000000"`), "bad_amount /certificate/bound"},
		"bound with newline": {cert(`"bound":"5.000000\n"`), "bad_amount /certificate/bound"},
		"bound empty":        {cert(`"bound":""`), "bad_amount /certificate/bound"},
		"bound below 0":      {cert(`"bound":"-12345678901234567890123456789012345678901.000000"`), ""},
		"replan": {re(`"at_s":1,"constant":0,"started":[{"job":"j","rounds":1,"until_s":2,"x":[]}],` +
			`"gpus":{"a":"b"},"moved":[7,{"job":7}],"x":{}`), ""},
		"replan of nulls": {re(`"at_s":null,"constant":null,"instance":null,"schedule":null,"started":null,` +
			`"gpus":null,"lost":null,"kept":null`), ""},
		"replan null":     {res(`"replan":null`), ""},
		"replan a number": {res(`"replan":5`), "wrong_type /replan"},
		"replan kinds": {
			re(`"at_s":"1","constant":"0","whole_value":[],"whole_bound":{},"gain":true,"kept_value":"",` +
				`"started":{},"gpus":[],"lost":0,"added":"j","removed":{},"moved":{},"kept":1,"planned_gpu_s":[],` +
				`"schedule_missing":0,"instance":[],"schedule":[]`),
			"wrong_type /replan/at_s; wrong_type /replan/constant; wrong_type /replan/whole_value; wrong_type " +
				"/replan/whole_bound; wrong_type /replan/gain; wrong_type /replan/kept_value; wrong_type " +
				"/replan/started; wrong_type /replan/gpus; wrong_type /replan/lost; wrong_type /replan/added; " +
				"wrong_type /replan/removed; wrong_type /replan/moved; wrong_type /replan/kept; wrong_type " +
				"/replan/planned_gpu_s; wrong_type /replan/schedule_missing; wrong_type /replan/instance; " +
				"wrong_type /replan/schedule"},
		"replan items": {
			re(`"started":[1,{"job":1,"rounds":"1","until_s":null}],"lost":[{"gpu":[],"round":-1}],"gpus":{"a":1},` +
				`"added":[1]`),
			"wrong_type /replan/started/0; wrong_type /replan/started/1/job; wrong_type /replan/started/1/rounds; " +
				"wrong_type /replan/started/1/until_s; wrong_type /replan/lost/0/gpu; out_of_range " +
				"/replan/lost/0/round; wrong_type /replan/gpus/a; wrong_type /replan/added/0"},
		"all at once": {`{"hare":"x","value":"y","schedule":{"jobs":[1],"lanes":[{"job":[9],"start_us":["z"]}]},` +
			`"certificate":{"hare":"w","pat":1}}`,
			"wrong_type /value; wrong_type /schedule/jobs/0; out_of_range /schedule/lanes/0/start_us/0; " +
				"unknown_field /certificate/pat; unknown_form /certificate/hare; unknown_form /hare; out_of_range " +
				"/schedule/lanes/0/job/0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.DecodeResult(strings.NewReader(c.text), wire.Limits{})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && haretest.Faults(err) != c.want:
				t.Errorf("got  %s\nwant %s\n(%v)", haretest.Faults(err), c.want, err)
			}
		})
	}
}

func TestRequestsPointIntoTheWholeDocument(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"instance":` + with("") + `,"options":{"time_limit_s":1e1,"seed":-4}}`, ""},
		{`{"instance":` + with("{}") + `}`, "missing_field /instance/jobs/0; missing_field /instance/jobs/0/id"},
		{`{"instance":{"hare":"x","cluster":{"nodes":[]}}}`,
			"no_gpus /instance/cluster/nodes; unknown_form /instance/hare; missing_field /instance"},
		{`{"instance":7,"option":{}}`, "wrong_type /instance; unknown_field /option"},
		{`{"instance":` + job(`"rounds":9007199254740992`) + `}`, "too_large /instance/jobs/0"},
		{`{"options":{"time_limit_s":-1,"gap":2,"seeds":1,"work_limit":1.5}}`,
			"out_of_range /options/time_limit_s; out_of_range /options/gap; unknown_field /options/seeds; " +
				"wrong_type /options/work_limit"},
		{`{"options":{"time_limit_s":86400.000001}}`, "out_of_range /options/time_limit_s"},
		{`{"options":{"time_limit_s":1e309}}`, "too_large /options/time_limit_s"},
		{`{"result":{"hare":"result/v1","schedule":{"jobs":[],"lanes":[{"job":[0],"start_us":[0]}]}}}`,
			"out_of_range /result/schedule/lanes/0/job/0"},
		{`{"result":{"hare":"no","certificate":{}}}`,
			"unknown_form /result/certificate/hare; unknown_form /result/hare"},
		{`{"result":[],"method":1}`, "wrong_type /result; wrong_type /method"},
		{``, "malformed"},
	} {
		_, err := wire.DecodeRequest(strings.NewReader(c.text), wire.Limits{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.want != "" && haretest.Faults(err) != c.want:
			t.Errorf("%s\ngot  %s\nwant %s", c.text, haretest.Faults(err), c.want)
		}
	}
}
