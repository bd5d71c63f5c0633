package api

import (
	"bytes"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxCheckpointChunk is the greatest size of a piece of a checkpoint.
const maxCheckpointChunk = 4 << 20

// putCheckpoint stores a piece of a checkpoint.
//
//	@Summary		Bring a piece of the checkpoint of a round job as an agent
//	@Description	The server keeps the newest checkpoint of a round job whose nodes share no directory, for the case
//	@Description	that its node is lost. The agent of the program of rank 0 brings it in pieces; the body is bytes from
//	@Description	offset on, and those that are stored are not stored again. A checkpoint takes the place of the one
//	@Description	before when all of it is there and its hash is right.
//	@Tags			agents
//	@ID				putCheckpoint
//	@Param			cluster	path	string	true	"its name"
//	@Param			agent	path	string	true	"the name of the agent"
//	@Param			Hare-Agent-Secret	header	string	true	"the secret of the agent's registration"
//	@Param			epoch	query	int		true	"the agent's epoch"
//	@Param			job		query	string	true	"the id of the job"
//	@Param			attempt	query	int		true	"its attempt, which goes on, from 1"
//	@Param			round	query	int		true	"the number of rounds that stand in the checkpoint, from 1"
//	@Param			bytes	query	int		true	"the size of the whole checkpoint"
//	@Param			sha256	query	string	true	"the hash of the whole checkpoint, 64 hexadecimal digits"
//	@Param			offset	query	int		true	"where the bytes belong"
//	@Param			body	body	string	false	"bytes of the checkpoint"
//	@Accept			octet-stream
//	@Produce		json,application/problem+json
//	@Success		200	{object}	clusterdoc.CheckpointStored	"how much is stored now"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		403	{object}	openapi.Problem	"the key is not of role agent, or is for other nodes; or the secret is not that of the registration"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, or the agent has no such attempt"
//	@Failure		409	{object}	openapi.Problem	"the agent's epoch is over, or the checkpoint is old, damaged or too large"
//	@Failure		413	{object}	openapi.Problem	"more than 4 MiB at once"
//	@Failure		415	{object}	openapi.Problem	"the body is not application/octet-stream"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Failure		507	{object}	openapi.Problem	"the disk is full: the copy before is kept"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/checkpoints [post]
func (s *server) putCheckpoint(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	at, err := checkpointQuery(r)
	if err != nil {
		return err
	}
	if at.Round, err = number(r, "round"); err == nil {
		at.Bytes, err = number(r, "bytes")
	}
	switch {
	case err != nil:
		return err
	case at.Round < 1 || at.Bytes < 1 || at.Offset > at.Bytes:
		return badName("?round= and ?bytes= must be at least 1, and ?offset= at most ?bytes=")
	}
	piece, err := s.receive(w, r, maxCheckpointChunk)
	if err != nil {
		return err
	}
	stored, err := c.PutCheckpoint(r.Context(), chi.URLParam(r, "agent"), at, bytes.NewReader(piece))
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, stored)
}

// getCheckpoint sends a piece of a copy of a checkpoint.
//
//	@Summary		Get a piece of the copy of a round job's checkpoint as an agent
//	@Description	An order to start a round job names the copy that the server has. The agent of the program of rank 0
//	@Description	gets it where its node has no checkpoint that is as new. The answer has up to 4 MiB from offset on.
//	@Tags			agents
//	@ID				getCheckpoint
//	@Param			cluster	path	string	true	"its name"
//	@Param			agent	path	string	true	"the name of the agent"
//	@Param			Hare-Agent-Secret	header	string	true	"the secret of the agent's registration"
//	@Param			epoch	query	int		true	"the agent's epoch"
//	@Param			job		query	string	true	"the id of the job"
//	@Param			attempt	query	int		true	"its attempt, which goes on, from 1"
//	@Param			sha256	query	string	true	"the hash of the copy, from the order"
//	@Param			offset	query	int		true	"the first byte"
//	@Produce		application/octet-stream,application/problem+json
//	@Success		200	{string}	string	"bytes of the copy"
//	@Failure		400	{object}	openapi.Problem	"a parameter is invalid"
//	@Failure		403	{object}	openapi.Problem	"the key is not of role agent, or is for other nodes; or the secret is not that of the registration"
//	@Failure		404	{object}	openapi.Problem	"no such cluster, the agent has no such attempt, or the copy is lost"
//	@Failure		409	{object}	openapi.Problem	"the agent's epoch is over"
//	@Failure		500	{object}	openapi.Problem	"a defect of the server; its log has the request_id"
//	@Failure		503	{object}	openapi.Problem	"the server is shutting down"
//	@Router			/v1/clusters/{cluster}/agents/{agent}/checkpoints [get]
func (s *server) getCheckpoint(w http.ResponseWriter, r *http.Request) error {
	c, err := s.cluster(r)
	if err != nil {
		return err
	}
	at, err := checkpointQuery(r)
	if err != nil {
		return err
	}
	f, err := c.OpenCheckpoint(r.Context(), chi.URLParam(r, "agent"), at)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", kindBytes)
	w.WriteHeader(http.StatusOK)
	_, err = io.CopyN(w, f, maxCheckpointChunk)
	if err == io.EOF {
		return nil
	}
	return err
}

// checkpointQuery reads the parameters of both.
func checkpointQuery(r *http.Request) (at *clusterdoc.CheckpointChunk, err error) {
	at = &clusterdoc.CheckpointChunk{Job: r.URL.Query().Get("job")}
	at.SHA256, at.Secret = r.URL.Query().Get("sha256"), r.Header.Get(clusterdoc.SecretHeader)
	if at.Epoch, err = number(r, "epoch"); err == nil {
		if at.Attempt, err = number(r, "attempt"); err == nil {
			at.Offset, err = number(r, "offset")
		}
	}
	switch {
	case err != nil:
		return nil, err
	case ledger.Number(at.Job) == 0:
		return nil, badName("?job= must be the id of a job, such as j17")
	case !sha256Text(at.SHA256):
		return nil, badName("?sha256= must have 64 hexadecimal digits, in lower case")
	}
	return at, nil
}

// badName refuses a text that the specification allows and no checkpoint has.
func badName(detail string) error {
	return &statusError{http.StatusNotFound, "bad_query", detail}
}

func sha256Text(text string) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 64
}
