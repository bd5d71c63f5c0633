package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/words"
	clustertext "github.com/hare-sched/hare/serve/clusters/text"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

type agentsFlags struct {
	clusterFlags
	once bool
}

func agentsCommand() *cobra.Command {
	var af agentsFlags
	c := &cobra.Command{
		Use:   "agents",
		Short: "Show the nodes of a managed cluster, their GPUs and what runs there",
		Long: `Agents shows the nodes of a cluster: one agent a node. On a terminal the table is drawn
again each second until Ctrl-C; --once, a pipe and --json print it once.

States: ready; draining (runs what it has and gets nothing new); drained (has nothing
left); lost (its lease has run out, and its jobs start elsewhere). A GPU in quarantine
has shown a fault, and gets nothing until its agent says that it is well.`,
		Example: `  hare agents
  hare agents --cluster lab --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return af.run(c) },
	}
	af.addCluster(c)
	c.Flags().BoolVar(&af.once, "once", false, "print once, also on a terminal")
	return c
}

func (af *agentsFlags) run(c *cobra.Command) error {
	ctx := c.Context()
	r, err := af.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	if af.json {
		all, err := r.Agents(ctx, af.cluster)
		if err != nil {
			return af.clusterError(r, err)
		}
		return printDocument(c.OutOrStdout(), clusterdoc.AgentList{Agents: all})
	}
	err = showLive(ctx, c.OutOrStdout(), af.once, func(int) (string, bool, error) {
		all, err := r.Agents(ctx, af.cluster)
		return clustertext.Agents(all), false, err
	})
	if err != nil && ctx.Err() == nil {
		err = af.clusterError(r, err)
	}
	return err
}

func drainCommand() *cobra.Command {
	var cf clusterFlags
	var reason string
	var wait bool
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Give a node of a managed cluster nothing new",
		Long: `Drain keeps new work from a node: what runs there goes on, and when it has ended the node
is drained and can be stopped. The server keeps this until hare undrain, also when the
agent or the server starts again.`,
		Example: `  hare drain node3 --reason 'new fans' --wait && ssh node3 poweroff
  hare undrain node3`,
		Args: exactly(1, "the name of a node, which hare agents prints"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			r, err := cf.open(ctx)
			if err != nil {
				return err
			}
			defer r.Close()
			all, err := r.Drain(ctx, cf.cluster, args[0], reason)
			if err == nil && wait {
				all, err = cf.drained(ctx, r, args[0])
			}
			return cf.printAgent(c, r, args[0], all, err)
		},
	}
	cf.addCluster(c)
	c.Flags().StringVar(&reason, "reason", "", "why, for those who see the node drained")
	c.Flags().BoolVar(&wait, "wait", false, "wait until nothing runs on the node")
	return c
}

// drained waits until nothing runs on a node.
func (cf *clusterFlags) drained(ctx context.Context, r *remote, node string) ([]*clusterdoc.Agent, error) {
	return poll(ctx, func() ([]*clusterdoc.Agent, bool, error) {
		all, err := r.Agents(ctx, cf.cluster)
		i := slices.IndexFunc(all, func(a *clusterdoc.Agent) bool { return a.Name == node })
		return all, i < 0 || all[i].State != "draining", err
	})
}

func undrainCommand() *cobra.Command {
	var cf clusterFlags
	c := &cobra.Command{
		Use:     "undrain NODE",
		Short:   "Let a node of a managed cluster have work again",
		Long:    `Undrain ends hare drain: the node gets work again.`,
		Example: `  hare undrain node3`,
		Args:    exactly(1, "the name of a node, which hare agents prints"),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := cf.open(c.Context())
			if err != nil {
				return err
			}
			defer r.Close()
			all, err := r.Undrain(c.Context(), cf.cluster, args[0])
			return cf.printAgent(c, r, args[0], all, err)
		},
	}
	cf.addCluster(c)
	return c
}

// printAgent prints in a line how an agent stands.
func (cf *clusterFlags) printAgent(c *cobra.Command, r *remote, node string, all []*clusterdoc.Agent,
	err error) error {
	if err != nil {
		if c.Context().Err() != nil {
			return err
		}
		var no *client.Problem
		if errors.As(err, &no) && no.Code == "no_such_agent" {
			return usageError{fmt.Errorf("cluster %s has no node %s: hare agents lists the nodes", cf.cluster,
				words.Plain(node))}
		}
		return cf.clusterError(r, err)
	}
	for _, a := range all {
		if a.Name != node {
			continue
		}
		if cf.json {
			return printDocument(c.OutOrStdout(), a)
		}
		text := a.Name + " is " + a.State
		if a.Reason != "" {
			text += ": " + words.Plain(a.Reason)
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), text)
		return err
	}
	return nil
}
