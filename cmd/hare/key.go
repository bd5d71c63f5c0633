package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
)

func keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Create, list and revoke the API keys of a server, and set quotas",
		Long: `Key changes the keys in the data directory of a server. A running server uses the
changed keys within a second.

Each key belongs to a tenant and has a role: agent lets it take part in the tenant's
clusters as the hare agent of its nodes, and do nothing else; read lets it see the
tenant's solves, sessions and clusters; solve also lets it create and delete them, and
submit jobs; admin also lets it create and revoke keys of the tenant over HTTP. Keys of
tenant "*" are the operator's: with role admin they see the metrics and manage the keys
of all tenants.`,
		Example: `  hare key create --data-dir /var/lib/hare --tenant vision --role solve --expires 90d
  hare key create --data-dir /var/lib/hare --tenant vision --role agent -o node1.key
  hare key list --data-dir /var/lib/hare
  hare key revoke --data-dir /var/lib/hare ID
  hare key quota --data-dir /var/lib/hare vision --solves 4 --rate 20`,
	}
	var dir string
	c.PersistentFlags().StringVar(&dir, "data-dir", "", "the data directory of the server")
	_ = c.MarkPersistentFlagDirname("data-dir") // cannot fail: the flag exists
	c.AddCommand(keyCreateCommand(&dir), keyListCommand(&dir), keyRevokeCommand(&dir), keyQuotaCommand(&dir))
	return c
}

// keyFile returns the file of keys in a data directory.
func keyFile(dir string) (*access.File, error) {
	if dir == "" {
		return nil, usageError{errors.New("--data-dir is missing: the directory that hare serve has")}
	}
	return access.FileIn(dir), nil
}

// changeKeys changes the keys in a data directory. Its errors are usage errors.
func changeKeys(c *cobra.Command, dir string, change func(*access.KeySet) error) error {
	f, err := keyFile(dir)
	if err != nil {
		return err
	}
	if err := f.Update(c.Context(), change); err != nil {
		return keyError(f, err)
	}
	return nil
}

func keyError(f *access.File, err error) error {
	if errors.As(err, new(*store.CorruptError)) {
		return usageError{fmt.Errorf("%w: put a copy of it back, or remove %s, with which all keys end", err, f.Path())}
	}
	if dir := filepath.Dir(f.Path()); errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("--data-dir: there is no directory %s: name that of hare serve, or make it with "+
			"mkdir -m 700 %s", dir, dir)}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: make room on the disk of %s", err, f.Path())
	}
	return usageError{err}
}

type keyCreateFlags struct {
	tenant, role, expires, note, out string
	nodes                            []string
	dir                              *string
}

func keyCreateCommand(dir *string) *cobra.Command {
	kf := keyCreateFlags{dir: dir}
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a key and print it once",
		Long: `Create prints the new key to standard output, or writes it with -o to a new file that
only you can read, and its id, tenant, role and expiry to standard error. The data
directory stores only a hash of the key, so the key cannot be shown again.

A key of role agent is for one node: the first that registers with it. --node names the
node beforehand, or gives a pattern in which * stands for any characters: one key for a
fleet is made with --node '*'. Whoever has such a key can be any of its nodes.`,
		Example: `  hare key create --data-dir /var/lib/hare --tenant vision --role solve --expires 90d --note 'CI of vision'
  hare key create --data-dir /var/lib/hare --tenant vision --role agent -o node1.key
  hare key create --data-dir /var/lib/hare --tenant vision --role agent --node 'rack1-*' -o rack1.key`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return kf.run(c) },
	}
	f := c.Flags()
	f.StringVarP(&kf.out, "output", "o", "", "write the key to this new file, which only its owner can read")
	outputs(c, outputFile, "output")
	f.StringArrayVar(&kf.nodes, "node", nil, "with --role agent: the name of the node, or a pattern such as rack1-*; "+
		"may be given again (default: the node that the key registers first)")
	f.StringVar(&kf.tenant, "tenant", "", `tenant of the key: a-z, 0-9 and .-_, or "*" for the operator`)
	f.StringVar(&kf.role, "role", "", "role of the key: agent, read, solve or admin")
	f.StringVar(&kf.expires, "expires", "", "how long the key is valid, e.g. 90d or 12h (default: for ever)")
	f.StringVar(&kf.note, "note", "", "what the key is for")
	return c
}

func (kf *keyCreateFlags) run(c *cobra.Command) error {
	if kf.role == "" {
		return usageError{errors.New("--role is missing: agent, read, solve or admin, by what the key may do")}
	}
	r, err := access.ParseRole(kf.role)
	if err != nil {
		return flagError(err)
	}
	lasts, err := parseDays(kf.expires)
	if err != nil {
		return usageError{fmt.Errorf("--expires: %w", err)}
	}
	now := time.Now()
	secret, k, err := access.NewKey(kf.tenant, r, kf.note, now, lasts)
	if err != nil {
		return flagError(err)
	}
	if len(kf.nodes) > 0 {
		if err := access.CheckNodes(r, kf.nodes); err != nil {
			return nodeError(err)
		}
		k.Nodes = kf.nodes
	}
	var file *os.File // before the key, which cannot be shown again
	if kf.out != "" {
		if file, err = newSecretFile(kf.out); err != nil {
			return usageError{fmt.Errorf("--output: %w", err)}
		}
	}
	if err := changeKeys(c, *kf.dir, func(set *access.KeySet) error { return set.Add(k, now) }); err != nil {
		if file != nil {
			_ = file.Close()
			_ = os.Remove(kf.out)
		}
		return err
	}
	until, forNodes := "for ever", ""
	if r == access.RoleAgent {
		forNodes = " of " + nodesOf(&k)
	}
	if !k.Expires.IsZero() {
		until = "until " + k.Expires.Format(time.RFC3339)
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "key %s of tenant %s, role %s%s, valid %s: it is not shown again\n",
		k.ID, k.Tenant, k.Role, forNodes, until)
	if file != nil {
		return writeSecret(file, secret)
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), secret)
	return err
}

// nodeError names the flag --node, which is a list in documents.
func nodeError(err error) error {
	var bad *hare.InvalidError
	if errors.As(err, &bad) {
		return usageError{fmt.Errorf("--node: %s", bad.Detail)}
	}
	return usageError{err}
}

// nodesOf says which nodes a key may be the agent of.
func nodesOf(k *access.Key) string {
	switch {
	case k.Role != access.RoleAgent:
		return "-"
	case k.Nodes == nil:
		return "any, made before keys had nodes"
	case len(k.Nodes) == 0:
		return "the first node"
	}
	return strings.Join(k.Nodes, ",")
}

// flagError names the flag that belongs to the field of an error.
func flagError(err error) error {
	var bad *hare.InvalidError
	if errors.As(err, &bad) {
		return usageError{fmt.Errorf("--%s: %s", strings.ReplaceAll(strings.TrimSuffix(bad.Pointer[strings.LastIndex(
			bad.Pointer, "/")+1:], "_s"), "_", "-"), bad.Detail)}
	}
	return usageError{err}
}

// parseDays parses a duration, also in days: 90d.
func parseDays(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	const day = 24 * time.Hour
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if _, err = fmt.Sscanf(days+" ", "%d ", &n); err == nil && fmt.Sprint(n) == days && n <= 36_500 {
			d = time.Duration(n) * day
		}
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 || d > 36_500*day {
		return 0, fmt.Errorf("%.40q must be a time like 90d or 12h, at most 36500d", text)
	}
	return d, nil
}

type keyListFlags struct {
	tenant string
	dir    *string
}

func keyListCommand(dir *string) *cobra.Command {
	kf := keyListFlags{dir: dir}
	c := &cobra.Command{
		Use:   "list",
		Short: "List the keys, without their secrets",
		Long: `List prints each key with its id, tenant, role, state and note, and of keys of role
agent the nodes that they are for: a name, patterns, or "the first node" of a key that
has registered none yet. It never prints secrets, of which the server stores only hashes.`,
		Example: "  hare key list --data-dir /var/lib/hare --tenant vision",
		Args:    exactly(0, "no arguments"),
		RunE:    func(c *cobra.Command, _ []string) error { return kf.run(c) },
	}
	c.Flags().StringVar(&kf.tenant, "tenant", "", "list only the keys of this tenant")
	return c
}

func (kf *keyListFlags) run(c *cobra.Command) error {
	f, err := keyFile(*kf.dir)
	if err != nil {
		return err
	}
	ring, err := access.OpenKeyring(f, nil, nil)
	if err != nil {
		return keyError(f, err)
	}
	if kf.tenant == "" {
		kf.tenant = access.Operator
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tTENANT\tROLE\tSTATE\tCREATED\tEXPIRES\tNODES\tNOTE")
	for _, k := range ring.List(kf.tenant) {
		expires := "never"
		if !k.Expires.IsZero() {
			expires = k.Expires.Format(time.DateOnly)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Role,
			k.State(time.Now()), k.Created.Format(time.DateOnly), expires, nodesOf(&k), k.Note)
	}
	return w.Flush()
}

func keyRevokeCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a key; a running server ends its open calls within a second",
		Long: `Revoke ends the key with this public id, which hare key list prints. A running server
refuses the key and ends its open calls within a second.`,
		Example: "  hare key revoke --data-dir /var/lib/hare ID",
		Args:    exactly(1, "the ID of a key"),
		RunE: func(c *cobra.Command, args []string) error {
			id := args[0]
			if public := access.KeyID(id); public != "" {
				id = public // the user may give the whole key instead of its id
			}
			err := changeKeys(c, *dir, func(set *access.KeySet) error {
				err := set.Revoke(access.Operator, id, time.Now())
				if errors.Is(err, access.ErrNoKey) {
					return errors.New("no key has that id: see hare key list")
				}
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is revoked\n", id)
			return err
		},
	}
}

type keyQuotaFlags struct {
	q                  admission.Quota
	bodyMiB, storedMiB int64
	dir                *string
}

func keyQuotaCommand(dir *string) *cobra.Command {
	kf := keyQuotaFlags{dir: dir}
	c := &cobra.Command{
		Use:   "quota TENANT",
		Short: "Set the quotas of a tenant in place of the server's defaults",
		Long: `Quota replaces all quotas of a tenant. A quota without a flag, or with 0, is the
server's default, which hare serve --quota-… sets.`,
		Example: "  hare key quota --data-dir /var/lib/hare vision --solves 4 --rate 20",
		Args:    exactly(1, "a tenant"),
		RunE:    func(c *cobra.Command, args []string) error { return kf.run(c, args) },
	}
	f := c.Flags()
	f.IntVar(&kf.q.Solves, "solves", 0, "most solves, bounds and other computations, queued and running together")
	f.Float64Var(&kf.q.Rate, "rate", 0, "most requests per second; twice as many are allowed at once")
	f.Int64Var(&kf.bodyMiB, "body", 0, "largest request body in MiB")
	f.Int64Var(&kf.storedMiB, "stored", 0, "most MiB of stored solves and sessions")
	f.IntVar(&kf.q.Sessions, "sessions", 0, "most sessions")
	f.IntVar(&kf.q.Streams, "streams", 0, "most open streams")
	f.IntVar(&kf.q.Jobs, "jobs", 0, "most jobs of managed clusters that have not ended")
	mebibytes(c, "body", "stored")
	return c
}

func (kf *keyQuotaFlags) run(c *cobra.Command, args []string) error {
	kf.q.BodyBytes, kf.q.StoredBytes = kf.bodyMiB<<20, kf.storedMiB<<20
	err := changeKeys(c, *kf.dir, func(set *access.KeySet) error { return set.SetQuota(args[0], kf.q) })
	if err != nil {
		return err
	}
	text := func(n float64, unit string) string {
		if n == 0 {
			return "default"
		}
		return strconv.FormatFloat(n, 'f', -1, 64) + unit
	}
	_, err = fmt.Fprintf(c.OutOrStdout(),
		"%s: solves %s, rate %s, body %s, stored %s, sessions %s, streams %s, jobs %s\n", args[0],
		text(float64(kf.q.Solves), ""), text(kf.q.Rate, "/s"), text(float64(kf.bodyMiB), " MiB"),
		text(float64(kf.storedMiB), " MiB"), text(float64(kf.q.Sessions), ""), text(float64(kf.q.Streams), ""),
		text(float64(kf.q.Jobs), ""))
	return err
}
