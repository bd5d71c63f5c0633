package api

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxLogChunk is the greatest size of an uploaded piece of a log.
const maxLogChunk = 4 << 20

// listAgents lists agents.
//
//	@Summary		List the agents of a managed cluster
//	@Tags			clusters
//	@ID				listAgents
//	@Param			cluster	path	string	true	"its name"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.AgentList	"agents by name, with their GPUs"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		500	{object}	openapi.Problem	"the journal is damaged; the server's log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster}/agents [get]
func (s *server) listAgents(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	all, err := c.Agents(r.Context())
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, clusterdoc.AgentList{Agents: all})
}

// registerAgent registers an agent.
//
//	@Summary		Take part in a managed cluster as an agent
//	@Description	An agent registers at its start, and again when its lease has run out. The answer has the epoch and
//	@Description	the secret that its requests carry from then on, and the tasks that it may go on with. A server with
//	@Description	keys takes those of role agent that are for the node, and those of role admin. A key that has no node
//	@Description	yet is from then on for this one.
//	@Tags			agents
//	@ID				registerAgent
//	@Param			cluster	path	string						true	"its name; a cluster that does not exist is made"
//	@Param			body	body	clusterdoc.Registration	true	"the node and its GPUs"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Registered	"the epoch and the lease"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		403	{object}	openapi.Problem	"the key is not of role agent, or is for other nodes; or it would make too many clusters"
//	@Failure		404	{object}	openapi.Problem	"this server manages no clusters"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"another agent has the name or one of the GPUs"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the agent is of another version, or the document has faults"
//	@Failure		429	{object}	openapi.Problem	"too many clusters exist, or agents register too often: Retry-After says when to try again"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/agents [post]
func (s *server) registerAgent(w http.ResponseWriter, r *http.Request) error {
	if err := s.registrations.allow(callerOf(r.Context()), time.Now()); err != nil {
		return err
	}
	var reg clusterdoc.Registration
	if err := s.readStrict(w, r, maxJobBody, &reg); err != nil {
		return err
	}
	if reg.Address == "" {
		reg.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	answer, err := s.registerNode(r, &reg)
	if err != nil {
		return err
	}
	s.cfg.Logger.Info("agent registered", "request_id", requestID(r.Context()), "cluster", chi.URLParam(r, "cluster"),
		"agent", reg.Name, "epoch", answer.Epoch, "gpus", len(reg.Devices))
	return answerJSON(w, http.StatusOK, answer)
}

// syncAgent takes the reports of an agent and answers with its orders.
//
//	@Summary		Report as an agent, renew the lease and get orders
//	@Description	The answer comes at once where there are orders, else after wait_s. Reports and orders are
//	@Description	repeated until the other side has seen them, so that a request can be sent again. A server whose disk
//	@Description	is full renews the lease and notes no report.
//	@Tags			agents
//	@ID				syncAgent
//	@Param			cluster	path	string				true	"its name"
//	@Param			agent	path	string				true	"the name of the agent"
//	@Param			Hare-Agent-Secret	header	string	true	"the secret of the agent's registration"
//	@Param			body	body	clusterdoc.Sync	true	"what is new"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.Synced	"orders, and the lease"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		403	{object}	openapi.Problem	"the key is not of role agent, or is for other nodes; or the secret is not that of the registration"
//	@Failure		404	{object}	openapi.Problem	"no such cluster"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		409	{object}	openapi.Problem	"the agent's epoch is over, or no such agent has registered: register"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"busy or draining: Retry-After says when to try again"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/sync [post]
func (s *server) syncAgent(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	var ask clusterdoc.Sync
	if err := s.readStrict(w, r, s.bodyLimit(r.Context()), &ask); err != nil {
		return err
	}
	ask.Secret = r.Header.Get(clusterdoc.SecretHeader)
	answer, err := c.Sync(r.Context(), chi.URLParam(r, "agent"), &ask)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, answer)
}

// putLog stores a piece of a log.
//
//	@Summary		Upload a piece of a task's output as an agent
//	@Description	The body is bytes of the output from offset on. Bytes that are stored are not stored again.
//	@Tags			agents
//	@ID				putLog
//	@Param			cluster	path	string	true	"its name"
//	@Param			agent	path	string	true	"the name of the agent"
//	@Param			Hare-Agent-Secret	header	string	true	"the secret of the agent's registration"
//	@Param			epoch	query	int		true	"the agent's epoch"
//	@Param			job		query	string	true	"the id of the job"
//	@Param			attempt	query	int		true	"its attempt, from 1"
//	@Param			task	query	int		true	"the task, from 0"
//	@Param			stream	query	string	true	"which output"	Enums(stdout, stderr)
//	@Param			offset	query	int		true	"where the bytes belong"
//	@Param			body	body	string	false	"bytes of the output"
//	@Accept			octet-stream
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.LogStored	"how much is stored now"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		403	{object}	openapi.Problem	"the key is not of role agent, or is for other nodes; or the secret is not that of the registration"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such task of the agent"
//	@Failure		409	{object}	openapi.Problem	"the agent's epoch is over"
//	@Failure		413	{object}	openapi.Problem	"more than 4 MiB at once"
//	@Failure		415	{object}	openapi.Problem	"the body is not application/octet-stream"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/logs [post]
func (s *server) putLog(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	at := clusterdoc.LogChunk{}
	if at.TaskID, at.Stream, at.Offset, err = logQuery(r, r.URL.Query().Get("job"), 0); err != nil {
		return err
	}
	if at.Epoch, err = number(r, "epoch"); err != nil {
		return err
	}
	at.Secret = r.Header.Get(clusterdoc.SecretHeader)
	piece, err := s.receive(w, r, maxLogChunk)
	if err != nil {
		return err
	}
	stored, err := c.PutLog(r.Context(), chi.URLParam(r, "agent"), &at, bytes.NewReader(piece))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, stored)
}

// logQuery reads which output is meant. An attempt that is left out is the given one.
func logQuery(r *http.Request, job string, attempt int64) (id clusterdoc.TaskID, stream string, offset int64,
	err error) {
	q := r.URL.Query()
	id.Job, id.Attempt = job, attempt
	if q.Has("attempt") {
		if id.Attempt, err = number(r, "attempt"); err != nil {
			return id, "", 0, err
		}
	}
	task, err := number(r, "task")
	if err != nil {
		return id, "", 0, err
	}
	id.Task = int(min(task, 1<<30))
	switch stream = q.Get("stream"); stream {
	case clusterdoc.StreamStdout, clusterdoc.StreamStderr:
	case "":
		stream = clusterdoc.StreamStdout
	default:
		return id, "", 0, badQuery("?stream= must be stdout or stderr")
	}
	offset, err = number(r, "offset")
	return id, stream, offset, err
}

// drainAgent keeps new work from an agent.
//
//	@Summary		Drain an agent
//	@Description	What runs there goes on; nothing new starts there.
//	@Tags			clusters
//	@ID				drainAgent
//	@Param			cluster	path	string				true	"its name"
//	@Param			agent	path	string				true	"the name of the agent"
//	@Param			body	body	clusterdoc.Drain	false	"why"
//	@Accept			json
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.AgentList	"the agents"
//	@Failure		400	{object}	openapi.Problem	"the body is not JSON, has a name twice, or is badly compressed"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such agent"
//	@Failure		408	{object}	openapi.Problem	"the body took too long to arrive"
//	@Failure		413	{object}	openapi.Problem	"the body is larger than the limit, which the problem states"
//	@Failure		415	{object}	openapi.Problem	"the media type or the content coding is not supported"
//	@Failure		422	{object}	openapi.Problem	"the document has faults, which the problem lists with their pointers"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/drain [post]
func (s *server) drainAgent(w http.ResponseWriter, r *http.Request) error {
	var d clusterdoc.Drain
	if r.ContentLength != 0 {
		if err := s.readStrict(w, r, maxSmallBody, &d); err != nil {
			return err
		}
	}
	return s.setDrain(w, r, true, d.Reason)
}

// undrainAgent lets an agent have work again.
//
//	@Summary		End the draining of an agent
//	@Tags			clusters
//	@ID				undrainAgent
//	@Param			cluster	path	string	true	"its name"
//	@Param			agent	path	string	true	"the name of the agent"
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.AgentList	"the agents"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or no such agent"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/undrain [post]
func (s *server) undrainAgent(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, false, "")
}

func (s *server) setDrain(w http.ResponseWriter, r *http.Request, on bool, reason string) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	if err := c.Drain(r.Context(), chi.URLParam(r, "agent"), on, reason); err != nil {
		return err
	}
	return s.listAgents(w, r)
}

// getJobLog sends an output of a task.
//
//	@Summary		Read the output of a task of a job
//	@Description	The bytes from offset on. With follow=true the answer goes on until the attempt has ended. The header
//	@Description	Hare-Attempt has the number of the attempt; the trailer Hare-Next-Offset says where to go on.
//	@Tags			clusters
//	@ID				getJobLog
//	@Param			cluster	path	string	true	"its name"
//	@Param			job		path	string	true	"the id of the job"
//	@Param			task	query	int		false	"the task: 0 without it"
//	@Param			stream	query	string	false	"which output: stdout without it"	Enums(stdout, stderr)
//	@Param			attempt	query	int		false	"the attempt, from 1: the last one without it"
//	@Param			offset	query	int		false	"the first byte: 0 without it"
//	@Param			tail	query	int		false	"begin at most this many bytes before the present end"
//	@Param			follow	query	bool	false	"stay until the attempt has ended"
//	@Produce		text/plain,application/problem+json
//	@Success		200	{string}	string	"bytes of the output"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, no such job, or it has not started"
//	@Failure		410	{object}	openapi.Problem	"the outputs of the job were removed to make room"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"draining, or too many streams are open: Retry-After says when to try again"
//	@Router			/v1/clusters/{cluster}/jobs/{job}/logs [get]
func (s *server) getJobLog(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	follow, err := flag(r, "follow")
	if err != nil {
		return err
	}
	last, err := c.LastAttempt(r.Context(), chi.URLParam(r, "job"))
	if err != nil {
		return err
	}
	id, stream, offset, err := logQuery(r, chi.URLParam(r, "job"), last)
	if err != nil {
		return err
	}
	if id.Attempt == 0 {
		return &statusError{http.StatusNotFound, "not_started", "the job has not started: it has no output yet"}
	}
	tail, err := number(r, "tail")
	if err != nil {
		return err
	}
	if r.URL.Query().Has("tail") {
		offset = max(offset, c.LogSize(id, stream)-tail)
	}
	end, err := s.stream(r.Context(), "logs")
	if err != nil {
		return err
	}
	defer end()
	begun := false
	for {
		n, ended, err := c.CopyLog(r.Context(), id, stream, offset, func(piece []byte) error {
			s.beginLog(w, id.Attempt, &begun)
			_, err := w.Write(piece)
			return err
		})
		offset += n
		if err != nil {
			return err
		}
		s.beginLog(w, id.Attempt, &begun)
		if ended || !follow || !s.svc.Ready() {
			w.Header().Set("Hare-Next-Offset", strconv.FormatInt(offset, 10))
			return nil
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *server) beginLog(w http.ResponseWriter, attempt int64, begun *bool) {
	if *begun {
		return
	}
	*begun = true
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Hare-Attempt", strconv.FormatInt(attempt, 10))
	w.Header().Set("Trailer", "Hare-Next-Offset")
	w.WriteHeader(http.StatusOK)
}
