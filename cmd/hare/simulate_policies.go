package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
)

// simulatedPolicy is what simulate policies --json prints of a policy.
type simulatedPolicy struct {
	Name       string               `json:"name"`
	Engine     registry.Engine      `json:"engine"`
	Knows      policies.Knowledge   `json:"knows"`
	Text       string               `json:"text"`
	Parameters []policies.Parameter `json:"parameters"`
}

func simulatePoliciesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the policies of simulations, or the parameters of one",
		Long: `Policies lists the policies that simulations take, of all engines, with what each
knows beyond the events, and the parameters that --parameters takes.

With NAME, policies prints the parameters of that policy, with units and defaults.
Policies of tasks that know sizes take parameters only with --sizes estimates.`,
		Example: `  hare simulate policies
  hare simulate policies pollux
  echo '{"pollux": {"power": -4, "interference": 0.25}}' > parameters.json
  hare simulate --policy pollux --trace pollux_workload_6.csv --parameters parameters.json`,
		Args: atMostOnePolicy,
		RunE: func(c *cobra.Command, args []string) error {
			infos := registry.All()
			if len(args) > 0 {
				info, err := registry.Find(args[0])
				if err != nil {
					return usageError{err}
				}
				infos = []registry.Info{info}
			}
			var all []simulatedPolicy
			for _, p := range infos {
				s := simulatedPolicy{p.Name, p.Engine, p.Knows, p.Text, p.SimulationParameterList()}
				if s.Parameters == nil {
					s.Parameters = []policies.Parameter{}
				}
				all = append(all, s)
			}
			switch {
			case asJSON:
				return encodePolicies(c.OutOrStdout(), all)
			case len(args) > 0:
				return printParameters(c.OutOrStdout(), &registry.SessionInfo{Name: all[0].Name, Text: all[0].Text,
					Parameters: all[0].Parameters})
			}
			return printSimulatedPolicies(c.OutOrStdout(), all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printSimulatedPolicies prints a line for each policy.
func printSimulatedPolicies(w io.Writer, all []simulatedPolicy) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "policy\tengine\tknows\tparameters") // Flush returns the error
	for _, p := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Name, p.Engine, p.Knows, parameterNames(p.Parameters))
	}
	return t.Flush()
}
