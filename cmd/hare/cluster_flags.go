package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
)

type clusterFlags struct {
	far     remoteFlags
	cluster string
	json    bool
}

func (cf *clusterFlags) add(c *cobra.Command) {
	cf.far.add(c)
	cf.far.setDefault(c)
	c.Flags().BoolVar(&cf.json, "json", false, "print documents of the API instead of texts for people")
}

// addCluster adds also the flag that names the cluster.
func (cf *clusterFlags) addCluster(c *cobra.Command) {
	cf.add(c)
	cf.cluster = os.Getenv("HARE_CLUSTER")
	c.Flags().StringVar(&cf.cluster, "cluster", cf.cluster,
		"the cluster (default: the environment variable HARE_CLUSTER, or the only cluster of the server)")
	c.Flags().Lookup("cluster").DefValue = ""
}

// setDefault sets the server of a command that always works on one.
func (rf *remoteFlags) setDefault(c *cobra.Command) {
	const server = "http://127.0.0.1:8080"
	rf.server = cmp.Or(os.Getenv("HARE_SERVER"), server)
	f := c.Flags().Lookup("server")
	f.Usage, f.DefValue = "the server (default: the environment variable HARE_SERVER, or "+server+")", ""
}

// connect connects to the server and fails at once where nobody listens.
func (cf *clusterFlags) connect(ctx context.Context) (*remote, error) {
	r, err := cf.far.connect()
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx); err != nil {
		r.Close()
		return nil, remoteError(r, "", err)
	}
	return r, nil
}

// open connects to the server and finds the cluster.
func (cf *clusterFlags) open(ctx context.Context) (*remote, error) {
	r, err := cf.connect(ctx)
	if err != nil || cf.cluster != "" {
		return r, err
	}
	all, err := r.Clusters(ctx)
	switch {
	case err != nil:
		err = remoteError(r, "", err)
	case len(all) == 1:
		cf.cluster = all[0].Name
		return r, nil
	case len(all) == 0:
		err = usageError{errors.New("--cluster is missing, and the server has no cluster yet: name the one to make")}
	default:
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.Name
		}
		err = usageError{fmt.Errorf("--cluster is missing: the server has %s", strings.Join(names, ", "))}
	}
	r.Close()
	return nil, err
}

// clusterError says what a user can do about an error of the server.
func (cf *clusterFlags) clusterError(r *remote, err error) error {
	var no *client.Problem
	if errors.As(err, &no) && no.Code == "no_cluster" {
		return usageError{fmt.Errorf("--cluster %s: the server %s has no cluster of that name: hare cluster list shows its "+
			"clusters", cf.cluster, r.base)}
	}
	return remoteError(r, "", err)
}

// jobError is clusterError for a call that names a job.
func (cf *clusterFlags) jobError(r *remote, id string, err error) error {
	var no *client.Problem
	if errors.As(err, &no) && no.Code == "no_such_job" {
		return usageError{fmt.Errorf("cluster %s has no job %s, or no such process of it: hare jobs lists the jobs",
			cf.cluster, words.Plain(id))}
	}
	return cf.clusterError(r, err)
}

// printDocument prints a document of the API.
func printDocument(w io.Writer, document any) error {
	e := json.NewEncoder(exact(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}
