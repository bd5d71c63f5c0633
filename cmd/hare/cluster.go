package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func clusterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Create, list and delete managed clusters of a server",
		Long: `A managed cluster has agents (hare agent, one a node), jobs (hare submit) and an online
session that decides which job runs where. The first agent or job makes a cluster that
does not exist yet, with the policy rolling: hare cluster create is for other policies.`,
		Example: `  hare cluster create lab --policy hgittins
  hare cluster list
  hare cluster show lab --json
  hare cluster delete lab`,
	}
	c.AddCommand(clusterCreateCommand(), clusterListCommand(), clusterShowCommand(), clusterDeleteCommand())
	return c
}

func clusterCreateCommand() *cobra.Command {
	var cf clusterFlags
	var n clusterdoc.NewCluster
	var parameters string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a cluster, and choose how it decides",
		Long: `Create makes a cluster. Its policy stays as it is for the life of the cluster; the server
lists the policies at GET /v1/policies.`,
		Example: `  hare cluster create lab --policy hgittins
  hare cluster create lab --policy rolling --parameters '{"wait_for_plan": true}'`,
		Args: exactly(1, "the name of the cluster"),
		RunE: func(c *cobra.Command, args []string) error {
			n.Name = args[0]
			if parameters != "" {
				if n.Parameters = json.RawMessage(parameters); !json.Valid(n.Parameters) {
					return usageError{errors.New(`--parameters: must be a JSON object, as in '{"wait_for_plan": true}'`)}
				}
			}
			return cf.onServer(c, func(r *remote) error {
				made, err := r.CreateCluster(c.Context(), &n)
				if err != nil {
					return err
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), made)
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "cluster %s is made, with the policy %s\n", made.Name, made.Policy)
				return err
			})
		},
	}
	cf.add(c)
	c.Flags().StringVar(&n.Policy, "policy", "", "the policy that decides (default rolling)")
	c.Flags().StringVar(&parameters, "parameters", "", "parameters of the policy, as a JSON object")
	return c
}

// onServer connects, calls do, and says what a user can do about its error.
func (cf *clusterFlags) onServer(c *cobra.Command, do func(r *remote) error) error {
	r, err := cf.connect(c.Context())
	if err != nil {
		return err
	}
	defer r.Close()
	err = do(r)
	if bad := (usageError{}); err == nil || c.Context().Err() != nil || errors.As(err, &bad) {
		return err
	}
	return cf.clusterError(r, err)
}

func clusterListCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the clusters of a server",
		Long:    `List prints the clusters with their policies, agents, GPUs and jobs.`,
		Example: `  hare cluster list`,
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return cf.onServer(c, func(r *remote) error {
				all, err := r.Clusters(c.Context())
				if err != nil {
					return err
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), clusterdoc.ClusterList{Clusters: all})
				}
				_, err = io.WriteString(c.OutOrStdout(), clustertext.Clusters(all))
				return err
			})
		},
	}
	cf.add(c)
	return c
}

func clusterShowCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a cluster and the session that decides for it",
		Long: `Show prints a cluster: its policy, what is in service, how many jobs are in which state,
and the ID of its online session, whose log, plan and regret the server has under
/v1/sessions/ID.`,
		Example: `  hare cluster show lab`,
		Args:    exactly(1, "the name of the cluster"),
		RunE: func(c *cobra.Command, args []string) error {
			cf.cluster = args[0]
			return cf.onServer(c, func(r *remote) error {
				x, err := r.Cluster(c.Context(), cf.cluster)
				if err != nil {
					return err
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), x)
				}
				_, err = io.WriteString(c.OutOrStdout(), clustertext.Cluster(x))
				return err
			})
		},
	}
	cf.add(c)
	return c
}

func clusterDeleteCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a cluster in which no job waits or runs",
		Long: `Delete removes a cluster with its jobs, their logs and its session. Jobs that have not
ended keep it from that: hare cancel ends them.`,
		Example: `  hare cluster delete lab`,
		Args:    exactly(1, "the name of the cluster"),
		RunE: func(c *cobra.Command, args []string) error {
			cf.cluster = args[0]
			return cf.onServer(c, func(r *remote) error {
				if err := r.DeleteCluster(c.Context(), cf.cluster); err != nil {
					return err
				}
				if cf.json {
					return printDocument(c.OutOrStdout(), map[string]string{"deleted": cf.cluster})
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "cluster %s is deleted\n", cf.cluster)
				return err
			})
		},
	}
	cf.add(c)
	return c
}
