package pseudonym

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// open reads a file of the readers' own tests.
func open(t testing.TB, name string) Text {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "history", "testdata", name))
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

// instance makes the instance of texts, in the form of a file, and what happened.
func instance(t testing.TB, source string, now bool, texts []Text) (inst, happened []byte, log *history.Log) {
	t.Helper()
	var sources []trace.Source
	for _, x := range texts {
		sources = append(sources, trace.Source{Name: x.Name, R: bytes.NewReader(x.Body)})
	}
	log, err := history.Read(source, sources, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	build := log.Build
	if now {
		build = log.BuildNow
	}
	built, err := build(history.Config{Name: "7"})
	if err != nil {
		t.Fatal(err)
	}
	var b, h bytes.Buffer
	if err := wire.EncodeInstance(&b, built.Instance); err != nil {
		t.Fatal(err)
	}
	if built.Happened != nil {
		if err := wire.EncodeResult(&h, built.Happened); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes(), h.Bytes(), log
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

// TestSameUpToNames checks for the texts of all readers' tests: what is made of the renamed texts is what is made of the
// texts, renamed; and no name stands in what is written.
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
