package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportFormats imports files without naming their format, lists the formats, and checks that a refusal is one
// short line that says first what to do.
func TestImportFormats(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const acme = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time\n" +
		"a1,u1,1,8,96,SFT,COMPLETED,2023-03-01 00:00:10+08:00,2023-03-01 00:00:20+08:00,2023-03-01 01:00:20+08:00\n"
	const swf = "; MaxProcs: 8\n1 0 10 100 4 -1 -1 4 200 -1 1 3 1 7 1 1 -1 -1\n"
	jobs, nodes, out := at("acme.csv", acme), at("nodes.csv", "node,type,gpus\nn1,A100,8\n"), filepath.Join(dir, "o.json")
	list, _, code := runHare(t, "", "import", "--list-formats")
	for _, name := range []string{"slurm", "kube", "ray", "history", "swf", "helios", "acme", "pai", "kai", "gavel",
		"shockwave", "pollux", "philly", "openb", "armada"} {
		if code != 0 || !strings.Contains("\n"+list, "\n"+name+" ") {
			t.Errorf("%s is not in the list, exit code %d\n%s", name, code, list)
		}
	}
	for _, c := range []struct {
		args []string
		want string // on standard error
		code int
	}{
		{[]string{jobs, nodes}, "acme: 1 job", 0},
		{[]string{"--happened", filepath.Join(dir, "h.json"), jobs, "--gpus", "A100=8"}, "acme: 1 job", 0},
		{[]string{"history", jobs, "--gpus=A100=8"}, "history: 1 job", 0},
		{[]string{at("log.swf", swf), "--processors-per-gpu", "2"}, "swf: 1 job\n", 0},
		{[]string{at("t.trace", "LM (batch size 5)\tc\td\t-n\t1\t9000\t2\tgns\t1\t-1.0\t14\t7.5\n")}, "shockwave: 1 job",
			0},
		{[]string{at("p.csv", "arrival_s,duration_s,num_gpus\n1,2,1\n2,x,1\n")},
			"skipped 1: a row with a value that cannot be " +
				"used: duration_s (first at ", 0},
		{[]string{at("w.yaml", "queues:\n- name: a\n  jobTemplates:\n  - number: 1\n    requirements: "+
			"{resourceRequirements: "+
			"{requests: {nvidia.com/gpu: 1}}}\n    runtimeDistribution: {minimum: 5m}\n"), at("c.yaml",
			"clusters:\n- name: c\n  "+
				"nodeTemplates:\n  - {number: 1, totalResources: {resources: {nvidia.com/gpu: 8}}}\n")}, "armada: 1 job ", 0},
		{[]string{at("x.csv", "job_id,submit_time,start_time,end_time,gpus\n")},
			"name the format, hare import FORMAT FILE (see " +
				"--list-formats): its content shows none; nearest: acme (lacks gpu_num, type), ", 2},
		{[]string{at("y.txt", "hello\n")}, "its content shows none\n", 2},
		{[]string{jobs, at("z.swf", swf)}, "name the format", 2},
		{[]string{at("i.json", `{"hare":"instance/v1"}`)}, "a document of Hare's own", 2},
		{[]string{"-"}, "name the format of standard input", 2},
		{[]string{"slrum"}, "unknown format", 2},
		{[]string{"armada"}, "name a file", 2},
		{[]string{"history", jobs, nodes, "--gpus", "A100=8"}, "leave one out", 2},
	} {
		args := append(append([]string{"import"}, c.args...), "-o", out)
		_, stderr, code := runHare(t, "", args...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("hare %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
		}
		if line := strings.ReplaceAll(stderr, dir, ""); code == 2 && (strings.Count(line, "\n") != 1 || len(line) > 230) {
			t.Errorf("hare %s: %d bytes: %s", strings.Join(args, " "), len(line), stderr)
		}
	}
}

// TestAnonymise writes copies of the files of a case, whose import is the same up to names.
func TestAnonymise(t *testing.T) {
	dir := t.TempDir()
	jobs, nodes := filepath.Join(dir, "ann.csv"), filepath.Join(dir, "lab-nodes.csv")
	for path, text := range map[string]string{
		jobs: "id,user,name,submit,start,end,gpus,nodes,type\nx,ann,bert,0,0,90,2,gpu-a,V100\ny,bob,vgg,0,90,120,1," +
			"gpu-a,V100\n",
		nodes: "node,type,gpus\ngpu-a,V100,4\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, "case")
	stdout, stderr, code := runHare(t, "", "anonymise", jobs, nodes, "-o", folder)
	if code != 0 || !strings.HasSuffix(stdout, "7 names replaced\n") {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	got, err := os.ReadFile(filepath.Join(folder, "1.csv"))
	if want := "id,user,name,submit,start,end,gpus,nodes,type\nn006,n001,n002,0,0,90,2,n004,V100\n" +
		"n007,n003,n005,0,90,120,1,n004,V100\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, stderr, code := runHare(t, "", "import", filepath.Join(folder, "1.csv"), filepath.Join(folder, "2.csv"), "-o",
		filepath.Join(dir, "o.json")); code != 0 || !strings.Contains(stderr, "history: 2 jobs") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{jobs}, "a folder for the copies"}, {[]string{"-o", folder}, "takes files"},
		{[]string{jobs, jobs, "-o", folder}, "is given twice"}, {[]string{jobs, "-o", nodes}, "a folder"},
		{[]string{filepath.Join(dir, "none"), "-o", folder}, "no such file"},
	} {
		if _, stderr, code := runHare(t, "", append([]string{"anonymise"}, c.args...)...); code != 2 ||
			!strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %s", c.args, code, stderr)
		}
	}
}
