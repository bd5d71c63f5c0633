package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
)

func policiesCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the policies of sessions, or the parameters of one",
		Long: `Policies lists the policies that sessions take, with what each uses in place of
sizes, which nobody knows in a session:

  sizes        estimates (what the jobs that ended took), or nothing
  hints        whether estimate_s and class of the jobs are used
  simulations  what the policy knows in simulations with exact sizes
  parameters   the names that hare online --parameters and the field parameters take

With NAME, policies prints the parameters of that policy, with units and defaults.
GET /v1/policies of a server answers with the document that --json prints.`,
		Example: `  hare online policies
  hare online policies rolling
  hare online policies --json | jq '.policies[].name'`,
		Args: atMostOnePolicy,
		RunE: func(c *cobra.Command, args []string) error {
			infos := registry.SessionInfos()
			if len(args) > 0 {
				if _, err := registry.OpenSession(args[0], nil, nil); err != nil {
					return policyError("", err)
				}
				for _, p := range infos {
					if p.Name == args[0] {
						infos = []registry.SessionInfo{p}
					}
				}
			}
			switch {
			case asJSON:
				return encodePolicies(c.OutOrStdout(), infos)
			case len(args) > 0:
				return printParameters(c.OutOrStdout(), &infos[0])
			}
			return printPolicies(c.OutOrStdout(), infos)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, as GET /v1/policies answers it")
	return c
}

func atMostOnePolicy(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exactly(1, "at most one policy")(c, args)
	}
	return nil
}

// encodePolicies prints policies as one document of JSON.
func encodePolicies(w io.Writer, policies any) error {
	e := json.NewEncoder(exact(w))
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{"policies": policies})
}

func parameterNames(parameters []policies.Parameter) string {
	var names []string
	for _, x := range parameters {
		names = append(names, x.Name)
	}
	return strings.Join(names, ", ")
}

// printPolicies prints a line for each policy.
func printPolicies(w io.Writer, infos []registry.SessionInfo) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "policy\tsizes\thints\tsimulations\tparameters") // Flush returns the error
	for _, p := range infos {
		name := p.Name
		if p.Default {
			name += " (default)"
		}
		hints := "no"
		if p.Hints {
			hints = "yes"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, p.Sizes, hints, p.SimulatedSizes, parameterNames(p.Parameters))
	}
	return t.Flush()
}

// printParameters prints what a policy does, and a line for each parameter.
func printParameters(w io.Writer, p *registry.SessionInfo) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "%s: %s\n", p.Name, p.Text)
	if len(p.Parameters) == 0 {
		_, _ = fmt.Fprintln(t, "It has no parameters.")
		return t.Flush()
	}
	_, _ = fmt.Fprintln(t, "\nparameter\ttype\tunit\tdefault\tmeaning")
	for _, x := range p.Parameters {
		value := "-"
		if x.Default != nil {
			text, err := json.Marshal(x.Default)
			if err != nil {
				return err
			}
			value = string(text)
		}
		unit := x.Unit
		if unit == "" {
			unit = "-"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", x.Name, x.Type, unit, value, x.Text)
	}
	return t.Flush()
}
