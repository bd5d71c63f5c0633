package pseudonym

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// members are the names of members of documents that readers know, one a line; go test ./history/pseudonym -update
// gathers them from the sources of the readers.
//
//go:embed members.txt
var members string

// known are the members in lower case.
var known = setOf(members)

// vocabulary are words that fields of states, kinds and choices have.
var vocabulary = setOf(strings.ToLower(`
	pending configuring requeue_hold resv_del_hold special_exit running completing suspended stopped stage_out resizing
	signaling completed failed out_of_memory launch_failed reconfig_fail cancelled revoked deadline timeout node_fail
	boot_fail preempted requeued requeue_fed expediting resv_del by uid
	idle allocated mixed down drain drained draining fail failing future planned planned maint reboot reboot_issued
	reboot_requested unk error not_responding power_up power_down powered_down powering_up powering_down blocked
	external cloud dynamic_norm reserved resume undrain completing perfctrs
	succeeded terminated waiting submission driver alive dead created removed restarting dependencies_unready
	pending_creation detached rescheduling prepared infeasible
	ready true false scheduled podscheduled initialized containersready memorypressure diskpressure pidpressure
	networkunavailable complete suspend suspended jobsuspended quotareserved admitted evicted finished podsready
	preempted in notin exists doesnotexist gt lt never always onfailure default
	noschedule preferNoschedule noexecute equal normal warning
	nodeready nodenotready nodeschedulable nodenotschedulable
	gang rigid relaxed weighted_jct jct_and_tardiness makespan lanes succeeded events server
	unknown bert cifar10 deepspeech2 imagenet ncf yolov3 accordion gns static ls be burstable guaranteed bestEffort
	low_priority exclusive node no yes none user mcs topo shared oversubscribe force
	maint ignore_jobs daily weekly flex spec_nodes all_nodes overlap
	pretrain sft eval
	nodes jobs groups actors consolidated unconsolidated
	slurm kube ray history begin log/v1 instance/v1 result/v1 certificate/v1 shadow-log/v1 rolling fifo
	parallel indexed nonindexed worker master launcher workers
	asrpt easy_backfill gandiva gavel_fifo hare_offline hare_paper hgittins hlas kueue kueue_strict sampling sched_allox
	sched_homo srtf themis tiresias tiresias_gittins estimates
	price critical_path critical path machine queyranne paper optimal gap work_limit work limit method infeasible
	no_schedule
	pack spread strict_pack strict_spread
	jobheldadmin jobhelduser dependency dependencyneversatisfied begintime priority resources partitiondown
	partitioninactive partitionnodelimit partitiontimelimit partitionconfig reqnodenotavail reservation reservationdeleted
	nodedown badconstraints systemfailure joblaunchfailure nonzeroexitcode timelimit inactivelimit invalidaccount
	invalidqos
	licenses prolog cleaning jobarraytasklimit launchfailedrequeuedheld oom outofmemory raisedsignal
	assocgrpgres assocgrpgresminutes assocgrpgresrunminutes assocgrpcpulimit assocgrpmemlimit assocgrpnodelimit
	assocgrpjobslimit assocgrpsubmitjobslimit assocgrpwalllimit assocmaxjobslimit assocmaxcpuperjoblimit
	assocmaxgresperjob assocmaxnodeperjoblimit assocmaxwalldurationperjoblimit associationjoblimit
	associationresourcelimit associationtimelimit qosgrpgres qosgrpcpulimit qosgrpjobslimit qosgrpmemlimit
	qosgrpnodelimit qosgrpsubmitjobslimit qosgrpwalllimit qosjoblimit qosmaxcpuperjoblimit qosmaxcpuperuserlimit
	qosmaxgresperjob qosmaxgresperuser qosmaxjobsperuserlimit qosmaxmemoryperjob qosmaxnodeperjoblimit
	qosmaxwalldurationperjoblimit qosresourcelimit qostimelimit qosusagethreshold qosminGRES
	nodes required for job are down drained or reserved for jobs in higher priority partitions
	schedmain schedbackfill schedsubmit startrecieved startreceived started_on_schedule start_received job_was_running
	backfill_attempted partition_assigned using_default_account using_default_partition using_default_qos
	using_default_wckey success cold-start`))

// classes say what fields with texts hold; all others have harmless texts or names.
var classes = map[string]func(w *walker, s string) string{}

func init() {
	for _, group := range []struct {
		fields string
		write  func(w *walker, s string) string
	}{
		{`nodelist nodes reqnodelist excluded_nodes required_nodes scheduled_nodes batch_host batchhost failed_node nodename
			nodeaddr nodehostname hostname hostnames address node_list range list execnodes schednodelist reqnodes
			excnodelist exec_host allocating_node onlynodes notnodes node_name`, (*walker).hosts},
		{`state jobstate job_state current status phase kind apiversion reason state_reason flags
			node_state state_flags sync ` +
			`objective
			operator restartpolicy clock policy hare detail pod_phase qos_class batch_mode application
			completionmode effect
			base_state method bound_method termination stopped next_state_after_reboot placement exclusive
			shared oversubscribe
			driver_exit strategy source`, (*walker).words},
		{`type types gpu_type requested_type gpu_spec gpu_type_spec gputype gpu_product`,
			(*walker).token},
		{`reqtres alloctres tres cfgtres gres gresused gres_used gres_drained tres_used alloc_tres tres_per_job tres_per_node
			tres_per_socket tres_per_task tres_req_str tres_alloc_str gres_detail used_gres reqgres allocgres tresusageinave
			tresperjob trespernode trespersocket trespertask cpus_per_tres memory_per_tres allocgres reqgres tres_fmt`,
			(*walker).tres},
		{`jobid arrayjobid arraytaskid jobidraw job_id_raw array_job_id array_task_id array_task_string
			array_task_str task task_id id_array_task
			het_job_id_set step_id sluid`, (*walker).slurmID},
		{`submitline submit_line`, (*walker).submitLine},
		{`features constraints constraint availablefeatures activefeatures features_active batch_features cluster_features
			prefer`, (*walker).features},
		{`partition partitions accounts users groups partition_name`, func(w *walker, s string) string {
			return w.list(s,
				",")
		}},
		{`dependency dependencies`, (*walker).dependency},
		{`key label`, func(w *walker, s string) string { return w.name(s) }},
		{`instance_sha256 sha256`, (*walker).sum},
		{`hare.dev/seconds seconds`, (*walker).seconds},
		{`job_type`, func(w *walker, s string) string {
			if trace.KnownModel(s) {
				return s
			}
			return w.name(s)
		}},
	} {
		for field := range strings.FieldsSeq(group.fields) {
			classes[field] = group.write
		}
	}
}

// inList stands behind the name of a member for the elements of its list.
const inList = "[]"

// value replaces the text of a field, by what the field is known to hold. parent is the member that has its object.
func (w *walker) value(parent, field, s string) string {
	if s == "" {
		return s
	}
	field, parent = strings.TrimSuffix(field, inList), strings.TrimSuffix(parent, inList)
	if strings.EqualFold(field, "name") {
		switch parent = strings.ToLower(parent); {
		case tresLists[parent]:
			return w.tres(s)
		case parent == "gpus":
			return w.token(s)
		}
	}
	if strings.EqualFold(parent, "productName") || strings.EqualFold(parent, "labels") && isTypeLabel(field) {
		return w.token(s)
	}
	if strings.HasPrefix(s, "hare=") {
		return "hare=" + w.seconds(s[len("hare="):])
	}
	if write, ok := classes[strings.ToLower(field)]; ok {
		return write(w, s)
	}
	if isTypeLabel(field) {
		return w.token(s)
	}
	return w.name(s)
}

// tresLists are the lists of Slurm's JSON whose members have the names of resources.
var tresLists = setOf("allocated requested max min average total consumed tres")

// member replaces the name of a member of an object, if readers do not know the name. parent is the member that
// has the object.
func (w *walker) member(parent, s string) string {
	switch parent = strings.ToLower(parent); {
	case resourceMaps[parent]:
		return w.resource(s)
	case typeMaps[parent]:
		return w.token(s)
	case labelMaps[parent]:
		return w.name(s)
	case parent == "nodes" && !nodesMembers[strings.ToLower(s)]:
		return w.name(s)
	case known[strings.ToLower(s)]:
		return s
	}
	return w.name(s)
}

// Members with objects whose own members are no fields.
var (
	resourceMaps = setOf(`allocatable capacity limits requests hard used resources resourcestotal resources_total
		resourcesavailable unit_resources required_resources totalresources total_resources requestsandlimits overhead
		entrypoint_resources`)
	typeMaps     = setOf("on gpus seconds speeds")
	labelMaps    = setOf("labels annotations matchlabels nodeselector nodelabels only exclude sync_s selector")
	nodesMembers = setOf("count list select_type whole allocation name range nodes hostnames addresses allocated " +
		"idle other total")
)

// resources are the resources of Kubernetes and Ray whose names nobody invents.
var resources = setOf("cpu memory pods gpu object_store_memory storage ephemeral-storage")

func (w *walker) resource(s string) string {
	lower := strings.ToLower(s)
	switch {
	case resources[lower], strings.HasPrefix(lower, "hugepages-"), strings.HasPrefix(s, "accelerator_type:"):
		return s
	case strings.Contains(s, "/") && tokenForm.MatchString(s):
		return s // vendor.com/gpu
	case known[lower]:
		return s
	}
	return w.name(s)
}

// plainLabels are labels without a domain that readers know; those with one stand in members.txt.
var plainLabels = setOf("pod-group-name gpu-fraction gpu-fraction-num-devices gpu-memory gpu-type gpu_type")

func isKnownLabel(s string) bool {
	return plainLabels[s] || strings.Contains(s, "/") && known[strings.ToLower(s)]
}

// isTypeLabel reports whether a label names a GPU type.
func isTypeLabel(s string) bool {
	for _, label := range history.TypeLabels {
		if s == label {
			return true
		}
	}
	return s == "armadaproject.io/gpuType" || s == "gpu-type" || s == "gpu_type" || s == "ray.io/accelerator-type"
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._:/|+-]{0,79}$`)

// token keeps a GPU type.
func (w *walker) token(s string) string {
	if !tokenForm.MatchString(s) {
		return w.name(s)
	}
	w.types[strings.ToLower(s)] = true
	return s
}

var wordSplit = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_./]*`)

// words keeps a text all of whose words are in the vocabulary.
func (w *walker) words(s string) string {
	if isKind(s) {
		return s
	}
	for _, word := range wordSplit.FindAllString(s, -1) {
		if lower := strings.ToLower(strings.Trim(word, "./")); !vocabulary[lower] && !nothings[word] && !isKind(word) {
			return w.list(s, ",")
		}
	}
	return s
}

// kinds are kinds and versions of objects of Kubernetes that everybody has.
var kinds = regexp.MustCompile(`^(v[0-9]+((alpha|beta)[0-9]+)?|` +
	`([a-z-]+\.)*(k8s\.io|x-k8s\.io|kubeflow\.org|ray\.io|volcano\.sh|koordinator\.sh|run\.ai)/v[0-9a-z]+|` +
	`(batch|apps)/v1(beta1)?|(Node|Pod|Job|Event|Workload)?List|Node|Pod|Job|CronJob|JobSet|` +
	`(MPI|PyTorch|TF|XGBoost|Paddle|MX|JAX|Train|Ray|MPI)Job|RayCluster|LeaderWorkerSet|PodGroup|Event|Workload|` +
	`ResourceFlavor|ClusterQueue|LocalQueue|Namespace|ReplicaSet|StatefulSet|Deployment|DaemonSet|ResourceClaim|` +
	`ResourceClaimTemplate|ResourceSlice|DeviceClass|Queue|AppWrapper)$`)

func isKind(word string) bool { return kinds.MatchString(word) }

var tresForm = regexp.MustCompile(`^(cpu|mem|node|billing|energy|vmem|pages|fs/disk|` +
	`gres/(gpu|shard|mps|gpumem|gpuutil)|gres:(gpu|shard|mps)|gpu|shard|mps)` +
	`([:=][A-Za-z0-9_.:=*()/,+%-]*|\([A-Za-z0-9:,._-]*\))?$`)

// tres keeps CPUs, memory, nodes and GPUs of a list of Slurm's resources and replaces the names of others.
func (w *walker) tres(s string) string {
	var b strings.Builder
	depth, from := 0, 0
	flush := func(to int) {
		entry := s[from:to]
		name, amount, found := strings.Cut(entry, "=")
		switch {
		case harmless(entry) || tresForm.MatchString(entry):
			b.WriteString(entry)
		case found:
			b.WriteString(w.name(name) + "=" + w.name(amount))
		default:
			b.WriteString(w.list(entry, ":"))
		}
	}
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				flush(i)
				b.WriteByte(',')
				from = i + 1
			}
		}
	}
	flush(len(s))
	return b.String()
}

var slurmIDForm = regexp.MustCompile(`^[0-9][0-9_\[\],:%+.#-]*(batch|extern|interactive|TBD)?(\.\.\.\]?)?$`)

// slurmID keeps a number of a job, a task or a step.
func (w *walker) slurmID(s string) string {
	if slurmIDForm.MatchString(s) || strings.HasPrefix(s, "0x") && number.MatchString("1"+strings.Map(hexDigit, s[2:])) {
		return s
	}
	return w.name(s)
}

func hexDigit(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F' {
		return '1'
	}
	return 'x'
}

var featureWord = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_.-]*`)

// features replaces the names in a constraint such as a100&nvme*2.
func (w *walker) features(s string) string {
	return featureWord.ReplaceAllStringFunc(s, w.name)
}

var dependencyKinds = setOf("after afterany afterok afternotok afterburstbuffer aftercorr expand singleton")

// dependency keeps what a job waits for: kinds with numbers of jobs.
func (w *walker) dependency(s string) string {
	return featureWord.ReplaceAllStringFunc(s, func(word string) string {
		kind, _, _ := strings.Cut(word, "(")
		if dependencyKinds[kind] || slurmIDForm.MatchString(word) || word == "unfulfilled" || word == "fulfilled" ||
			word == "failed" || word == "unsatisfied" {
			return word
		}
		return w.name(word)
	})
}

// sum keeps a hash.
func (w *walker) sum(s string) string {
	if sums.MatchString(s) {
		return s
	}
	return w.name(s)
}

// seconds keeps the times that a comment gives by GPU type, such as {"v100":5}.
func (w *walker) seconds(s string) string {
	var times map[string]float64
	if err := json.Unmarshal([]byte(s), &times); err != nil {
		return w.name(s)
	}
	for gpuType := range times {
		if !tokenForm.MatchString(gpuType) {
			return w.name(s)
		}
	}
	return s
}

// hosts replaces the names of a list of hosts, with blanks or commas between them, GPUs of nodes too, and writes names
// with numbers that follow each other in brackets.
func (w *walker) hosts(s string) string {
	if harmless(s) {
		return s
	}
	words := strings.Fields(s)
	for i, word := range words {
		if gpuRef.MatchString(word) {
			words[i] = w.name(word)
			continue
		}
		names, err := history.ExpandHosts(word)
		if err != nil || len(names) == 0 || strings.Contains(s, "None ") {
			return w.name(s)
		}
		for j := range names {
			names[j] = w.name(names[j])
		}
		words[i] = fold(names)
	}
	return strings.Join(words, " ")
}

var endNumber = regexp.MustCompile(`^(.*?)(\d+)$`)

// fold writes names as a list of hosts: runs of numbers that follow each other become ranges.
func fold(names []string) string {
	var parts []string
	for i := 0; i < len(names); {
		m := endNumber.FindStringSubmatch(names[i])
		to := i + 1
		for m != nil && len(m[2]) < 10 && to < len(names) && names[to] == fmt.Sprintf("%s%0*d", m[1], len(m[2]),
			atoi(m[2])+to-i) {
			to++
		}
		if to-i < 3 {
			parts = append(parts, names[i])
			i++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s[%s-%0*d]", m[1], m[2], len(m[2]), atoi(m[2])+to-i-1))
		i = to
	}
	return strings.Join(parts, ",")
}

func atoi(digits string) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}
