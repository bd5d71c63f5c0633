package ray

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// Dashboard is the HTTP interface of Ray's dashboard.
type Dashboard struct {
	// URL is where it listens, such as http://127.0.0.1:8265.
	URL string
	// Token is sent as bearer, where Ray asks for one; empty means none.
	Token string
	// HTTP makes the requests; nil means a client that waits for 15 s.
	HTTP *http.Client
}

// maxAnswer limits the length of an answer.
const maxAnswer = 256 << 20

// AnswerError is an answer of Ray that refuses.
type AnswerError struct {
	Method, Path string
	Status       int
	Text         string // the last line of what Ray said
}

func (e *AnswerError) Error() string {
	text := fmt.Sprintf("ray: %s %s: %d %s: %.300s", e.Method, e.Path, e.Status, http.StatusText(e.Status), e.Text)
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		text += " (this Ray asks for a token: give --token-file, or RAY_AUTH_TOKEN)"
	}
	return text
}

// patient is the client of dashboards that have none. Submissions take about a second.
var patient = &http.Client{Timeout: 15 * time.Second}

// ask makes a request and decodes the answer into out, unless out is nil.
func (d *Dashboard) ask(ctx context.Context, method, path string, body, out any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(d.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if d.Token != "" {
		req.Header.Set("Authorization", "Bearer "+d.Token)
	}
	client := d.HTTP
	if client == nil {
		client = patient
	}
	res, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return fmt.Errorf("ray: the dashboard at %s does not answer: %w", d.URL, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("ray: %s %s: %w", method, path, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("ray: %s %s: the answer is longer than %d MiB", method, path, maxAnswer>>20)
	case res.StatusCode != http.StatusOK:
		return &AnswerError{Method: method, Path: path, Status: res.StatusCode, Text: lastLine(string(answer))}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("ray: %s %s: the answer is not one of Ray's dashboard: %w", method, path, err)
	}
	return nil
}

// lastLine is where a traceback of Python says what failed.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, ".\n "), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// rayJob is a job of Ray. Times are milliseconds.
type rayJob struct {
	SubmissionID string  `json:"submission_id"`
	Status       string  `json:"status"`
	Message      string  `json:"message"`
	ErrorType    string  `json:"error_type"`
	StartMs      float64 `json:"start_time"`
	EndMs        float64 `json:"end_time"`
	DriverNodeID string  `json:"driver_node_id"`
}

// endStatuses are those of jobs that are over. A status of another version says nothing of the end.
var endStatuses = []string{"SUCCEEDED", "FAILED", "STOPPED"}

// ended reports whether the job is over.
func (j *rayJob) ended() bool { return slices.Contains(endStatuses, j.Status) }

// rayNode is a node of Ray.
type rayNode struct {
	NodeID    string             `json:"node_id"`
	NodeName  string             `json:"node_name"`
	NodeIP    string             `json:"node_ip"`
	State     string             `json:"state"`
	Resources map[string]float64 `json:"resources_total"`
	Labels    map[string]string  `json:"labels"`
}

// submission is what Ray gets of a job.
type submission struct {
	SubmissionID string             `json:"submission_id"`
	Entrypoint   string             `json:"entrypoint"`
	GPUs         int64              `json:"entrypoint_num_gpus"`
	CPUs         float64            `json:"entrypoint_num_cpus,omitempty"`
	Memory       int64              `json:"entrypoint_memory,omitempty"` // bytes
	Resources    map[string]float64 `json:"entrypoint_resources,omitempty"`
	Labels       map[string]string  `json:"entrypoint_label_selector,omitempty"`
	RuntimeEnv   map[string]any     `json:"runtime_env,omitempty"`
	Metadata     map[string]string  `json:"metadata,omitempty"`
}

// session returns the name of Ray's session, which another has after a restart.
func (d *Dashboard) session(ctx context.Context) (string, error) {
	var v struct {
		Session string `json:"session_name"`
	}
	return v.Session, d.ask(ctx, http.MethodGet, "/api/version", nil, &v)
}

// jobs lists the jobs that were submitted, by their submission IDs. A value of another form than is known costs its
// job no more than the value, and is counted in the report. unsure says that there is an entry whose submission ID
// cannot be read, so that a job that is not in the list may be there.
func (d *Dashboard) jobs(ctx context.Context, report *history.Report) (out map[string]*rayJob, unsure bool,
	err error) {
	const path = "/api/jobs/"
	var list []json.RawMessage
	if err := d.ask(ctx, http.MethodGet, path, nil, &list); err != nil {
		return nil, false, err
	}
	out = make(map[string]*rayJob, len(list))
	for i, text := range list {
		if string(text) == "null" {
			continue
		}
		var j rayJob
		whole, err := report.DecodeObject(text, &j, path, "/"+strconv.Itoa(i))
		switch {
		case err != nil || j.SubmissionID == "" && !whole:
			unsure = true
		case j.SubmissionID != "":
			out[j.SubmissionID] = &j
		}
	}
	return out, unsure, nil
}

// job asks for one job; nil means that Ray does not know it.
func (d *Dashboard) job(ctx context.Context, id string) (*rayJob, error) {
	var j rayJob
	err := d.ask(ctx, http.MethodGet, "/api/jobs/"+escaped(id), nil, &j)
	var answer *AnswerError
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return nil, nil
	}
	return &j, err
}

// nodes lists the nodes. cut says that Ray has more than it reported.
func (d *Dashboard) nodes(ctx context.Context, report *history.Report) (nodes []rayNode, cut bool, err error) {
	const path = "/api/v0/nodes?detail=1&limit=10000"
	var answer struct {
		Result bool
		Msg    string
		Data   struct {
			Result struct {
				Total  int64             `json:"total"`
				Result []json.RawMessage `json:"result"`
			} `json:"result"`
		}
	}
	if err := d.ask(ctx, http.MethodGet, path, nil, &answer); err != nil {
		return nil, false, err
	}
	if !answer.Result {
		return nil, false, fmt.Errorf("ray: the nodes cannot be read: %.300s", answer.Msg)
	}
	list := answer.Data.Result.Result
	for i, text := range list {
		var n rayNode
		if _, err := report.DecodeObject(text, &n, path, "/data/result/result/"+strconv.Itoa(i)); err == nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, answer.Data.Result.Total > int64(len(list)), nil
}

// usage tells what of each node is in use, by node IDs, rounded up, and when this was so. Ray writes it
// every 5 s.
func (d *Dashboard) usage(ctx context.Context, report *history.Report) (used map[string]amount, atUs int64,
	err error) {
	const path = "/api/cluster_status"
	var answer struct {
		Data struct {
			ClusterStatus struct {
				Time              float64 `json:"time"`
				LoadMetricsReport struct {
					UsageByNode map[string]map[string][]float64 `json:"usageByNode"`
				} `json:"loadMetricsReport"`
			} `json:"clusterStatus"`
		}
	}
	var text json.RawMessage
	if err := d.ask(ctx, http.MethodGet, path, nil, &text); err != nil {
		return nil, 0, err
	}
	if _, err := report.DecodeObject(text, &answer, path, "/cluster_status"); err != nil {
		return nil, 0, err
	}
	status := &answer.Data.ClusterStatus
	used = map[string]amount{}
	for id, of := range status.LoadMetricsReport.UsageByNode {
		in := func(resource string, units float64) int64 {
			if len(of[resource]) == 0 { // used, and in all
				return 0
			}
			return whole(math.Ceil(of[resource][0]*units - 1e-6))
		}
		used[id] = amount{gpus: in("GPU", 1), cpuMilli: in("CPU", 1000), memoryMiB: in("memory", 1.0/mib)}
	}
	return used, int64(status.Time * 1e6), nil
}

func (d *Dashboard) submit(ctx context.Context, s *submission) error {
	return d.ask(ctx, http.MethodPost, "/api/jobs/", s, nil)
}

func (d *Dashboard) stop(ctx context.Context, id string) error {
	err := d.ask(ctx, http.MethodPost, "/api/jobs/"+escaped(id)+"/stop", nil, nil)
	var answer *AnswerError
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return nil
	}
	return err
}
