package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oasdiff/yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// lastWords is the time that api.Serve allows for the last answers.
const lastWords = 5 * time.Second

// flagsOfServe parses the command line of a manifest as hare serve does.
func flagsOfServe(t *testing.T, args []string) (grace time.Duration, flags map[string]string) {
	t.Helper()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("the command is %q", args)
	}
	c := serveCommand()
	if err := c.ParseFlags(args[1:]); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if left := c.Flags().Args(); len(left) > 0 {
		t.Fatalf("%q is no flag", left)
	}
	flags = map[string]string{}
	for _, name := range []string{"listen", "data-dir", "debug-listen", "log-format", "tls-cert", "tls-key",
		"shutdown-delay"} {
		flags[name] = c.Flags().Lookup(name).Value.String()
	}
	grace, err := c.Flags().GetDuration("grace")
	if err != nil {
		t.Fatal(err)
	}
	if debug := flags["debug-listen"]; debug != "" {
		if err := onLoopback(debug); err != nil {
			t.Error(err)
		}
	}
	who := accessFlags{certFile: c.Flags().Lookup("tls-cert").Value.String(),
		keyFile: c.Flags().Lookup("tls-key").Value.String()}
	if err := who.check(flags["listen"], flags["data-dir"]); err != nil {
		t.Error(err)
	}
	flags["keys"] = strconv.FormatBool(who.requireKeys)
	if _, err := newLogger(&bytes.Buffer{}, flags["log-format"], "info"); err != nil {
		t.Error(err)
	}
	return grace, flags
}

// TestShutdownDelay checks that a server goes on for the wait after the signal, and then ends.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	signal, stop := context.WithCancel(t.Context())
	later, cancel := delayed(signal, 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	stop()
	<-later.Done()
	if d := time.Since(begin); d < 50*time.Millisecond {
		t.Errorf("it ended after %v", d)
	}
}

// TestImages checks that hare accepts the command of the two images, and that neither is a server for everybody where
// its port is published.
func TestImages(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil || !bytes.Contains(deps, []byte("\ntime/tzdata\n")) {
		t.Errorf("hare has no zones of time in itself, and images have none: %v", err)
	}
	for name, form := range map[string]*regexp.Regexp{"Dockerfile": regexp.MustCompile(`(?m)^CMD (\[.*\])$`),
		"scripts/image.py": regexp.MustCompile(`"Cmd": (\[.*\]),`)} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		m := form.FindSubmatch(text)
		var args []string
		if m == nil || json.Unmarshal(m[1], &args) != nil {
			t.Fatalf("%s has no command", name)
		}
		_, flags := flagsOfServe(t, args) // checks that there are keys, or that it listens on loopback
		if flags["keys"] == "false" && onLoopback(flags["listen"]) != nil || bytes.Contains(text, []byte("--insecure")) {
			t.Errorf("%s: whoever reaches a server by %q may do everything", name, args)
		}
	}
}

// unitOf reads the settings of a unit of systemd.
func unitOf(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/systemd/" + name)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
	}
	return settings
}

// TestSystemdUnitOfAgents checks that hare accepts the command of the unit, and that jobs outlive the agent and one
// another.
func TestSystemdUnitOfAgents(t *testing.T) {
	settings := unitOf(t, "hare-agent.service")
	args := strings.Fields(settings["ExecStart"])[1:]
	c, flags, err := newRoot().Find(args)
	if err != nil || c.Name() != "agent" {
		t.Fatalf("%q: %v", args, err)
	}
	if err := c.ParseFlags(flags); err != nil || c.Flags().NArg() > 0 {
		t.Fatalf("%q: %v", args, err)
	}
	home := "/var/lib/" + settings["StateDirectory"]
	if d := c.Flags().Lookup("directory").Value.String(); !strings.HasPrefix(d, home+"/") {
		t.Errorf("--directory %s is not in %s", d, home)
	}
	// Jobs neither have the user of the agent nor find its key in a process or a file that they can read.
	if c.Flags().Lookup("run-as").Value.String() == "" || settings["User"] != "" || settings["Environment"] != "" ||
		settings["LoadCredential"] == "" {
		t.Errorf("jobs are not kept from the agent: %v", settings)
	}
	for name, want := range map[string]string{"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue",
		"Restart": "always"} {
		if settings[name] != want {
			t.Errorf("%s=%s, not %s", name, settings[name], want)
		}
	}
}

// TestSystemdUnit checks that hare accepts the command of the unit, and that
// systemd waits longer than a server needs to end.
func TestSystemdUnit(t *testing.T) {
	settings := unitOf(t, "hare.service")
	args := strings.Fields(settings["ExecStart"])
	grace, flags := flagsOfServe(t, args[1:])
	stop, err := strconv.Atoi(settings["TimeoutStopSec"])
	if need := grace + lastWords + flushTime; err != nil || time.Duration(stop)*time.Second < need {
		t.Errorf("TimeoutStopSec=%s, and an end may take %v", settings["TimeoutStopSec"], need)
	}
	if flags["data-dir"] != "/var/lib/"+settings["StateDirectory"] {
		t.Errorf("--data-dir %s is not the StateDirectory", flags["data-dir"])
	}
	for name, want := range map[string]string{"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes",
		"KillMode": "mixed", "CapabilityBoundingSet": ""} {
		if settings[name] != want {
			t.Errorf("%s=%s, not %s", name, settings[name], want)
		}
	}
}

type manifest struct {
	Kind string
	Spec struct {
		Replicas, MaxUnavailable int
		Ports                    []struct{ TargetPort any }
		Template                 struct {
			Spec struct {
				TerminationGracePeriodSeconds int
				SecurityContext               struct{ RunAsNonRoot bool }
				Containers                    []struct {
					Args                                        []string
					Ports                                       []struct{ Name string }
					SecurityContext                             struct{ ReadOnlyRootFilesystem, AllowPrivilegeEscalation bool }
					Lifecycle                                   map[string]any
					ReadinessProbe, LivenessProbe, StartupProbe struct {
						HTTPGet                         struct{ Path, Port, Scheme string }
						PeriodSeconds, FailureThreshold int
					}
					VolumeMounts []struct{ Name, MountPath string }
				}
			}
		}
	}
}

// TestKubernetesManifest checks that hare accepts the command of the manifest, that
// a pod has left the endpoints before it refuses calls, and that it has enough time
// to end.
func TestKubernetesManifest(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/hare.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]manifest{}
	for _, part := range strings.Split(string(text), "\n---\n") {
		var m manifest
		if _, err := yaml.Unmarshal([]byte(part), &m, yaml.DecodeOpts{}); err != nil {
			t.Fatal(err)
		}
		kinds[m.Kind] = m
	}
	for _, kind := range []string{"ServiceAccount", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"} {
		if _, there := kinds[kind]; !there {
			t.Errorf("there is no %s", kind)
		}
	}
	pod := kinds["StatefulSet"].Spec.Template.Spec
	if kinds["StatefulSet"].Spec.Replicas != 1 || kinds["PodDisruptionBudget"].Spec.MaxUnavailable != 1 {
		t.Error("one server holds the data directory, and must be movable")
	}
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	hare := pod.Containers[0]
	if !pod.SecurityContext.RunAsNonRoot || !hare.SecurityContext.ReadOnlyRootFilesystem ||
		hare.SecurityContext.AllowPrivilegeEscalation {
		t.Error("the container may too much")
	}
	grace, flags := flagsOfServe(t, hare.Args)
	if flags["keys"] != "true" {
		t.Error("whoever reaches it may do everything")
	}
	mounted := map[string]bool{}
	for _, v := range hare.VolumeMounts {
		mounted[v.Name+" "+v.MountPath] = true
	}
	if !mounted["data "+flags["data-dir"]] || !mounted["tls "+path.Dir(flags["tls-cert"])] ||
		!mounted["tls "+path.Dir(flags["tls-key"])] {
		t.Errorf("%v are mounted, and %v asked for", mounted, flags)
	}
	if len(hare.Lifecycle) > 0 {
		t.Errorf("%v: the image of a release has no program but hare", hare.Lifecycle)
	}
	wait, err := time.ParseDuration(flags["shutdown-delay"])
	if err != nil {
		t.Fatal(err)
	}
	if p := hare.ReadinessProbe; time.Duration(p.PeriodSeconds*p.FailureThreshold)*time.Second > wait {
		t.Errorf("/readyz may be asked for the last time %d s before, and --shutdown-delay is %v",
			p.PeriodSeconds*p.FailureThreshold, wait)
	}
	if need := wait + grace + lastWords + flushTime; time.Duration(pod.TerminationGracePeriodSeconds)*time.Second < need {
		t.Errorf("terminationGracePeriodSeconds is %d, and an end may take %v", pod.TerminationGracePeriodSeconds, need)
	}
	for at, probe := range map[string]string{"/readyz": hare.ReadinessProbe.HTTPGet.Path,
		"/healthz": hare.LivenessProbe.HTTPGet.Path} {
		if probe != at {
			t.Errorf("a probe asks %s, not %s", probe, at)
		}
	}
}

// argsOf are the arguments of the first container of a deployment.
func argsOf(deployment map[string]any) (args []string) {
	for _, a := range anyList(within(deployment, "spec", "template", "spec", "containers", 0, "args")) {
		args = append(args, a.(string))
	}
	return args
}

// flagsOf parses the arguments of hare kube and lists the flags that they set, by name.
func flagsOf(t *testing.T, c *cobra.Command, args []string) string {
	t.Helper()
	if len(args) == 0 || args[0] != "kube" {
		t.Fatalf("the command is %q", args)
	}
	if err := c.ParseFlags(args[1:]); err != nil || len(c.Flags().Args()) > 0 {
		t.Fatalf("%q: %v", args, err)
	}
	var set []string
	c.Flags().Visit(func(f *pflag.Flag) { set = append(set, f.Name+"="+f.Value.String()) })
	return strings.Join(set, " ")
}

// within is a part of a document.
func within(x any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			x = x.(map[string]any)[step]
		case int:
			x = x.([]any)[step]
		}
	}
	return x
}

// TestKubeManifests checks that hare accepts the command of the manifests of hare kube, that they give it
// the rights that it uses, and that the admission policy is about the account that they make.
func TestKubeManifests(t *testing.T) {
	read := func(name string) []map[string]any {
		t.Helper()
		text, err := os.ReadFile("../../deploy/kube/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return documentsOf(t, string(text))
	}
	deployment := read("deployment.yaml")[0]
	c := kubeCommand()
	flagsOf(t, c, argsOf(deployment))
	if c.Flags().Lookup("write").Changed {
		t.Error("the manifest writes: it must begin as a dry run")
	}
	account := within(deployment, "spec", "template", "spec", "serviceAccountName").(string)
	common := "nodes list, pods list, pods watch, jobs list, jobs watch, events create, leases create, leases get, " +
		"leases update"
	for name, needs := range map[string]string{"rbac.yaml": "jobs patch, jobsets list, jobsets watch, " +
		"jobsets patch, pytorchjobs list, pytorchjobs watch, pytorchjobs patch", "kueue-rbac.yaml": "workloads list, " +
		"workloads watch, workloads patch, clusterqueues list, localqueues list, resourceflavors list"} {
		rights := map[string]bool{}
		for _, d := range read(name) {
			for _, rule := range anyList(d["rules"]) {
				for _, resource := range anyList(within(rule, "resources")) {
					for _, verb := range anyList(within(rule, "verbs")) {
						rights[resource.(string)+" "+verb.(string)] = true
					}
				}
			}
		}
		for _, right := range strings.Split(common+", "+needs, ", ") {
			if !rights[right] {
				t.Errorf("%s lacks %s", name, right)
			}
		}
		for right := range rights {
			if strings.HasSuffix(right, "delete") || strings.HasSuffix(right, "*") || strings.HasPrefix(right, "secrets") {
				t.Errorf("%s has %s", name, right)
			}
		}
		if name == "kueue-rbac.yaml" && rights["jobs patch"] {
			t.Error("under Kueue hare kube may change Jobs")
		}
	}
	policies := 0
	for _, d := range read("admission-policy.yaml") {
		if d["kind"] != "ValidatingAdmissionPolicy" {
			continue
		}
		policies++
		policy := within(d, "spec", "matchConditions", 0, "expression").(string)
		if !strings.Contains(policy, `"system:serviceaccount:hare:`+account+`"`) {
			t.Errorf("the policy is about %s, the account is %s", policy, account)
		}
	}
	if policies != 2 {
		t.Errorf("%d policies, want one for Jobs and one for JobSets and PyTorchJobs", policies)
	}
}

func anyList(x any) []any {
	list, _ := x.([]any)
	return list
}
