package pseudonym

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// open reads a file of the readers' own tests.
func open(t testing.TB, name string) Text {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return Text{name, body}
}

// cases are the texts of the readers' tests, with the source that reads them together.
var cases = []struct {
	source string
	files  []string
	now    bool
}{
	{"slurm", []string{"sacct.txt", "nodes.txt", "events.txt"}, false},
	{"slurm", []string{"sacct.json", "sinfo.json"}, false},
	{"slurm", []string{"squeue-now.json", "nodes-now.txt", "sacct.txt"}, true},
	{"slurm", []string{"squeue.json", "sacct.txt", "nodes.txt"}, false},
	{"slurm", []string{"sacct-v0.0.40.json", "squeue-v0.0.40.json", "nodes-v0.0.40.json"}, false},
	{"slurm", []string{"sacct-v0.0.41.json", "squeue-v0.0.41.json", "nodes-v0.0.41.json"}, false},
	{"slurm", []string{"sacct-v0.0.42.json", "squeue-v0.0.42.json", "nodes-v0.0.42.json"}, false},
	{"slurm", []string{"sacct-v0.0.43.json", "squeue-v0.0.43.json", "nodes-v0.0.43.json"}, true},
	{"slurm", []string{"sacct-v0.0.44.json", "squeue-v0.0.44.json", "nodes-v0.0.44.json"}, false},
	{"slurm", []string{"live/sacct-23.11.4.json.gz", "live/squeue-23.11.4.json.gz", "live/nodes-23.11.4.json.gz"}, false},
	{"slurm", []string{"live/sacct-24.11.5.json.gz", "live/squeue-24.11.5.json.gz", "live/nodes-24.11.5.json.gz"}, false},
	{"slurm", []string{"live/sacct-25.11.2.json.gz", "live/squeue-25.11.2.json.gz", "live/nodes-25.11.2.json.gz"}, true},
	{"kube", []string{"kube.json"}, false},
	{"kube", []string{"kube.json"}, true},
	{"acme", []string{"tables/acme.csv", "tables/nodes.csv"}, false},
	{"helios", []string{"tables/helios.csv"}, false},
	{"pai", []string{"tables/pai_task_table.csv", "tables/pai_job_table.csv", "tables/pai_instance_table.csv",
		"tables/pai_machine_spec.csv"}, false},
}

// inline are texts that stand in no file of the readers' tests.
var inline = []struct {
	source string
	texts  []string
	cfg    history.ReadConfig
	secret []string
}{
	{"ray", []string{`[{"type":"SUBMISSION","job_id":"01000000","submission_id":"bert-ann","status":"SUCCEEDED",
 "entrypoint":"python /home/ann/bert.py --token=s3cret","start_time":1795300000000,"end_time":1795303600000,
 "driver_node_id":"aabb","metadata":{"user":"ann","gpus":"2","submitted":"1795299900",
 "hare":"{\"V100\":3600,\"T4\":9000}",
 "team":"vision"},"runtime_env":{"env_vars":{"ANN_KEY":"s3cret"}}}]`,
		`{"result":true,"msg":"","data":{"result":{"total":2,"result":[
{"node_id":"aabb","node_ip":"10.0.0.1","node_name":"gpu-ann","state":"ALIVE","start_time_ms":1795200000000,
 "end_time_ms":0,
 "resources_total":{"CPU":16.0,"GPU":4.0,"memory":68719476736.0,"accelerator_type:V100":1.0,"node:10.0.0.1":1.0,
 "ann_disk":1.0},"labels":{"ann.example/rack":"r9x"}}]}}}`}, history.ReadConfig{},
		[]string{"bert-ann", "ann", "bert.py", "s3cret", "vision", "ANN_KEY", "aabb", "10.0.0.1", "gpu-ann", "ann_disk",
			"r9x"}},
	{"slurm", []string{"JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES|NodeList|SubmitLine|" +
		"Comment\n" +
		"7_3|a|b|ann|lab|gpu,debug|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=4," +
		"license/matlab=1|" +
		"ann-[01-03],ann-7|sbatch -x ann-09 -w ann-[01-03] -C nvme&big --gres=gpu:a100:1 --wrap python /home/ann/x.py " +
		"--secret 7|see ann\n" +
		"8|late|ann|lab|gpu|CANCELLED by 1000|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=1|" +
		"ann-7|srun --dependency=afterok:7_3 -w /home/ann/nodes run.sh|\n",
		"NodeName=ann-7 Arch=x86_64 CPUTot=4 RealMemory=100 Gres=gpu:a100:1 AvailableFeatures=nvme,big " +
			"Partitions=gpu,debug\n" +
			"   State=DOWN Reason=ann broke NodeName=it [root@2026-01-01T00:00:00] Comment=call bob@lab.org\n\n" +
			"NodeName=ann-01 CPUTot=4 Gres=gpu:a100:1(S:0-1) AvailableFeatures=nvme Partitions=gpu State=IDLE\n"},
		history.ReadConfig{}, []string{"ann", "ann-7", "ann-01", "lab", "debug", "matlab", "nvme", "big", "x.py",
			"secret", "late",
			"bob", "lab.org", "broke", "home"}},
	{"swf", []string{"; Computer: ann's\n; MaxProcs: 8\n; Note: bob\n1 0 10 100 4 -1 -1 4 200 -1 1 3 1 7 1 1 -1 -1\n"},
		history.ReadConfig{}, []string{"ann", "bob", "Computer"}},
	{"kai", []string{`{"config":{"tiers":[{"plugins":[{"name":"bob"}]}]},"schedulerParams":{"schedulerName":"ann"},` +
		`"rawObjects":{
 "nodes":[{"metadata":{"name":"ann-0","uid":"u1","labels":{"nvidia.com/gpu.product":"T4","ann/rack":"r9x"}},
 "status":{"allocatable":{"nvidia.com/gpu":"4","cpu":"8"}}}],
 "pods":[{"metadata":{"name":"p-ann","namespace":"lab","uid":"u2","creationTimestamp":"2026-01-01T00:00:00Z"},
 "spec":{"nodeName":"ann-0","containers":[{"name":"c","image":"reg.example/ann:1","command":["python","secret"],
 "env":[{"name":"ANN_KEY","value":"s3cret"}],"resources":{"limits":{"nvidia.com/gpu":"2"}}}]},
 "status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True",
 "lastTransitionTime":"2026-01-01T00:00:05Z"}],
 "containerStatuses":[{"state":{"running":{"startedAt":"2026-01-01T00:00:09Z"}}}]}}],
 "configMaps":[{"data":{"ann":"s3cret"}}]}}`}, history.ReadConfig{},
		[]string{"bob", "ann", "ann-0", "r9x", "p-ann", "lab", "secret", "ANN_KEY", "s3cret", "reg.example"}},
	{"history", []string{"id,user,name,submit,start,end,gpus,nodes,type,landlord\na,ann,bert,0,0,90,2,ann-[1-2]," +
		"V100,bob\n" +
		"b,ben,vgg,10,90,120,1,ann-1/0,V100,bob\nc,ben,\"vgg, large\",10,10,70,1,n2,T4,bob\n"}, history.ReadConfig{},
		[]string{"ann", "bert", "ben", "vgg", "large", "ann-1", "bob", "landlord"}},
	{"history", []string{"id,user,name,submit,start,end,gpus,nodes,type\na,ann,bert,0,0,90,2,ann-1,V100\n" +
		"b,be\"n,vgg,10,90,120,1,ann-1,V100\nc,\"carl\" x,\"vgg,10,90,120,1,ann-1,V100\n" +
		"d,ann,\"two\nlines\",90,90,95,1,ann-1,V100\n"}, history.ReadConfig{},
		[]string{"ann", "bert", "be\"n", "vgg", "carl", "ann-1", "two", "lines"}},
}

// TestInline is TestSameUpToNames for texts with much in them that is nobody's business.
func TestInline(t *testing.T) {
	for _, c := range inline {
		var texts []Text
		for i, body := range c.texts {
			texts = append(texts, Text{fmt.Sprint(i), []byte(body)})
		}
		now := c.source == "kai"
		inst, _, _ := instance(t, c.source, now, texts)
		out, _, err := Rename(append(texts, Text{"instance", inst}))
		if err != nil {
			t.Fatalf("%s: %v", c.source, err)
		}
		var renamed []Text
		for i := range texts {
			renamed = append(renamed, Text{texts[i].Name, out[i]})
		}
		got, _, _ := instance(t, c.source, now, renamed)
		if c.source == "swf" {
			if string(got) != string(inst) {
				t.Errorf("swf: %s", differ(string(got), string(inst)))
			}
		} else if want := canonical(t, out[len(texts)]); string(got) != want {
			t.Errorf("%s: %s", c.source, differ(string(got), want))
		}
		for i := range renamed {
			for _, word := range wordForm.FindAllString(string(out[i]), -1) {
				if slices.Contains(c.secret, word) {
					t.Errorf("%s: %q stands in\n%s", c.source, word, out[i])
				}
			}
		}
	}
}

// TestLogs checks for a log of a session that names of nodes with a count, of labels and of users are replaced and
// that the log stays one.
func TestLogs(t *testing.T) {
	const log = `{"hare":"log/v1","policy":"rolling","clock":"events","cluster":{"nodes":[{"name":"ann","count":2,` +
		`"gpus":{"V100":1},"labels":{"rack":"r9x"}}],"topology":["rack"]}}
{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"bert","tasks":2,"sync":"gang","user":["ann","vision"],` +
		`"within":"rack",` +
		`"only":{"rack":["r9x"]},"exclude":{"node":["ann-1"]},"on":{"V100":{"compute_s":1.2,"sync_s":{"node":0.1,` +
		`"rack":0.2}}}}}
{"seq":1,"decisions":[{"type":"start","job":"bert","round":0,"task":0,"gpu":"ann-0/0","at_s":0}]}
`
	out, names, err := Rename([]Text{{"log", []byte(log)}})
	if err != nil {
		t.Fatal(err)
	}
	want := log
	for _, name := range []string{"ann", "bert", "r9x", "rack", "vision"} {
		want = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(want, names[name])
	}
	if string(out[0]) != want || len(names) != 5 {
		t.Errorf("got\n%s\nwant\n%s\n%v", out[0], want, names)
	}
	for _, text := range []string{"hello\nworld\n", "\x7fELF\x00,\t\t\t\t\t\t\n"} {
		_, _, err := Rename([]Text{{"x", []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), "nothing is written") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestValues checks which texts of fields stay.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		field  string
		stay   []string
		change []string
	}{
		{"apiVersion", []string{"v1", "batch/v1", "kueue.x-k8s.io/v1beta2", "jobset.x-k8s.io/v1alpha2", "kubeflow.org/v1",
			"batch.volcano.sh/v1alpha1", "scheduling.run.ai/v2alpha2", "resource.k8s.io/v1"}, []string{"ann.example.com/v1"}},
		{"kind", []string{"Pod", "PyTorchJob", "List", "NodeList", "ClusterQueue"}, []string{"AnnJob"}},
		{"state", []string{"COMPLETED", "CANCELLED by 1000", "IDLE+DRAIN", "mixed"}, []string{"ann", "DOWN by ann"}},
		{"AllocTRES", []string{"billing=4,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1", "gres/gpumem=4G", ""},
			[]string{"license/ann=1", "cpu=1,gres/ann=2"}},
		{"Gres", []string{"gpu:v100:4(S:0-1),gpu:a100_1g.5gb:7", "(null)", "gpu:4"}, []string{"gpu:4,ann:1"}},
		{"gres_detail", []string{"gpu:v100:3(IDX:0-2,4)"}, nil},
		{"JobID", []string{"12", "12_3", "12_[1-5:2%4]", "12+1", "12.batch", "12_[1,3,..."}, []string{"ann"}},
		{"user", []string{"1000", "None"}, []string{"ann", "ann(1000)", "10.0.0.1"}},
		{"submit", []string{"2026-01-01T00:00:00", "Unknown", "2026-01-01 00:00:00+08:00", "1-12:00:00", "5m0s"}, nil},
		{"dependency", []string{"afterok:12:13", "afterany:12(unfulfilled)", "singleton"}, []string{"ann"}},
		{"comment", []string{`hare={"v100":5000}`}, []string{"hare=ann", "ann"}},
		{"type", []string{"NVIDIA A100-SXM4-80GB", "v100"}, nil},
	} {
		w := &walker{phase: gathering, types: map[string]bool{}, bases: map[string]bool{}, spaces: map[string]bool{}}
		for i, s := range append(slices.Clone(c.stay), c.change...) {
			w.prepare()
			w.value("", c.field, s)
			if stays := len(w.seen) == 0; stays != (i < len(c.stay)) {
				t.Errorf("%s: %q stays %v: %v", c.field, s, stays, w.seen)
			}
		}
	}
}

// FuzzRename checks that no text makes Rename panic, that a name is always the same, and that renamed texts can be
// renamed again.
func FuzzRename(f *testing.F) {
	for _, c := range inline {
		for _, text := range c.texts {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("queues: [{name: ann, weight: 2}]\nclusters: []\n"))
	f.Add([]byte("LM (batch size 5)\tpython x\td\t-n\t1\t9000\t2\t1\t-1.0\t7.5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, names, err := Rename([]Text{{"f", text}})
		if err != nil {
			return
		}
		for name, invented := range names {
			if _, again := names[invented]; again || name == invented {
				t.Fatalf("%q becomes %q, which is a name", name, invented)
			}
		}
		if _, _, err := Rename([]Text{{"f", out[0]}}); err != nil && text[0] == '{' {
			t.Fatalf("%v\n%q\n%q", err, text, out[0])
		}
	})
}

// instance makes the instance of texts, in the form of a file, and what happened.
func instance(t testing.TB, source string, now bool, texts []Text) (inst, happened []byte, log *history.Log) {
	t.Helper()
	inst, happened, log, err := tryInstance(source, now, texts)
	if err != nil {
		t.Fatal(err)
	}
	return inst, happened, log
}

func tryInstance(source string, now bool, texts []Text) (inst, happened []byte, log *history.Log, err error) {
	var sources []trace.Source
	for _, x := range texts {
		sources = append(sources, trace.Source{Name: x.Name, R: bytes.NewReader(x.Body)})
	}
	log, err = history.Read(source, sources, history.ReadConfig{})
	if err != nil {
		return nil, nil, nil, err
	}
	build := log.Build
	if now {
		build = log.BuildNow
	}
	built, err := build(history.Config{Name: "7"})
	if err != nil {
		return nil, nil, nil, err
	}
	var b, h bytes.Buffer
	if err := wire.EncodeInstance(&b, built.Instance); err != nil {
		return nil, nil, nil, err
	}
	if built.Happened != nil {
		if err := wire.EncodeResult(&h, built.Happened); err != nil {
			return nil, nil, nil, err
		}
	}
	return b.Bytes(), h.Bytes(), log, nil
}

// namesOf lists the names in a log that are not numbers.
func namesOf(log *history.Log) (names []string) {
	add := func(texts ...string) {
		for _, s := range texts {
			if len(s) > 2 && !harmless(s) && !strings.HasPrefix(s, "pool-") {
				names = append(names, s)
			}
		}
	}
	for _, j := range log.Jobs {
		add(j.Name, j.User, j.Account, j.Partition, j.QOS, j.Reservation)
		if log.Source != "slurm" {
			add(j.ID)
		}
		add(j.OnlyNodes...)
		add(j.NotNodes...)
		for _, h := range j.On {
			add(h.Node)
		}
	}
	for _, n := range log.Nodes {
		add(n.Name)
		add(n.Features...)
		add(n.Partitions...)
		for _, l := range n.Labels {
			if !isKnownLabel(l.Name) {
				add(l.Name, l.Value)
			}
		}
	}
	return names
}

var wordForm = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_.-]*`)

// caseFolders are the texts of the readers' cases, each jobs with the nodes beside them.
func caseFolders(t *testing.T) (out [][]string) {
	folders, err := filepath.Glob(filepath.Join("..", "testdata", "cases", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		var nodes, jobs []string
		for _, file := range files {
			name := "cases/" + filepath.Base(folder) + "/" + filepath.Base(file)
			if strings.HasPrefix(filepath.Base(file), "nodes") {
				nodes = append(nodes, name)
			} else {
				jobs = append(jobs, name)
			}
		}
		for _, j := range jobs {
			out = append(out, append([]string{j}, nodes[:min(1, len(nodes))]...))
		}
	}
	return out
}

// TestCasesUpToNames is TestSameUpToNames for the texts of the readers' cases, where they give an instance.
func TestCasesUpToNames(t *testing.T) {
	made := 0
	for _, files := range caseFolders(t) {
		var texts []Text
		for _, name := range files {
			texts = append(texts, open(t, name))
		}
		first, _ := history.Detect(texts[0].Body)
		for _, now := range []bool{false, true} {
			inst, _, log, err := tryInstance(first, now, texts)
			if err != nil {
				continue
			}
			made++
			out, _, err := Rename(append(slices.Clone(texts), Text{"instance", inst}))
			if err != nil {
				t.Fatalf("%v: %v", files, err)
			}
			var renamed []Text
			for i := range texts {
				renamed = append(renamed, Text{texts[i].Name, out[i]})
			}
			got, _, again, err := tryInstance(first, now, renamed)
			if err != nil {
				t.Errorf("%v: %v", files, err)
				continue
			}
			if want := canonical(t, out[len(texts)]); string(got) != want {
				t.Errorf("%v, now %v: the instance of the renamed texts is not the renamed instance:\n%s", files, now,
					differ(string(got), want))
			}
			if n, m := log.Report.Unread(), again.Report.Unread(); n != m {
				t.Errorf("%v: %d values were set aside, and %d of the renamed texts", files, n, m)
			}
		}
	}
	if made < 30 {
		t.Errorf("only %d cases give an instance", made)
	}
}

// TestSameUpToNames checks for the texts of all readers' tests: what is made of the renamed texts is what is made
// of the texts, renamed; and no name stands in what is written.
func TestSameUpToNames(t *testing.T) {
	for _, c := range cases {
		t.Run(fmt.Sprint(c.source, c.files, c.now), func(t *testing.T) {
			var texts []Text
			for _, name := range c.files {
				texts = append(texts, open(t, name))
			}
			inst, happened, log := instance(t, c.source, c.now, texts)
			given := append(texts, Text{"instance", inst})
			if len(happened) > 0 {
				given = append(given, Text{"happened", happened})
			}
			out, _, err := Rename(given)
			if err != nil {
				t.Fatal(err)
			}
			var renamed []Text
			for i := range texts {
				renamed = append(renamed, Text{texts[i].Name, out[i]})
			}
			gotInst, gotHappened, _ := instance(t, c.source, c.now, renamed)
			if want := canonical(t, out[len(texts)]); string(gotInst) != want {
				t.Errorf("the instance of the renamed texts is not the renamed instance:\n%s", differ(string(gotInst), want))
			} else if len(happened) > 0 {
				var b bytes.Buffer
				res, err := wire.DecodeResult(bytes.NewReader(out[len(texts)+1]), wire.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if err := wire.EncodeResult(&b, res); err != nil {
					t.Fatal(err)
				}
				if b.String() != string(gotHappened) {
					t.Errorf("what happened differs:\n%s", differ(string(gotHappened), b.String()))
				}
			}
			standing := map[string]string{}
			types := map[string]bool{}
			for _, n := range log.Nodes {
				for _, g := range n.GPUs {
					types[strings.ToLower(g.Type)] = true
				}
			}
			for i := range out {
				for _, word := range wordForm.FindAllString(string(out[i]), -1) {
					standing[word] = given[i].Name
				}
			}
			for _, name := range namesOf(log) {
				if in, ok := standing[name]; ok && !types[strings.ToLower(name)] && !known[strings.ToLower(name)] {
					t.Errorf("the name %q stands in %s", name, in)
					delete(standing, name)
				}
			}
		})
	}
}

func canonical(t *testing.T, body []byte) string {
	t.Helper()
	inst, err := wire.DecodeInstance(bytes.NewReader(body), wire.Limits{})
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, body)
	}
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differ shows where two texts differ first.
func differ(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-200)
	return fmt.Sprintf("got  %.600s\nwant %.600s", got[from:], want[from:])
}
