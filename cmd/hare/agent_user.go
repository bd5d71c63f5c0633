package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/executor/runner"
)

// taskUser finds the user of --run-as, USER or USER:GROUP. Both may be numbers.
func taskUser(text string) (*runner.User, error) {
	if text == "" {
		return nil, nil
	}
	name, group, named := strings.Cut(text, ":")
	u, err := findUser(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--run-as %s: %w", text, err)}
	}
	if u.UID == 0 && name != "root" && name != "0" {
		return nil, usageError{fmt.Errorf("--run-as %s: this is another name of root: jobs would own the machine", text)}
	}
	if named {
		if u.GID, err = findGroup(group); err != nil {
			return nil, usageError{fmt.Errorf("--run-as %s: %w", text, err)}
		}
	}
	if os.Geteuid() != 0 {
		return nil, usageError{fmt.Errorf("--run-as %s: only an agent of root can start jobs as another user: start it as "+
			"root, or leave --run-as out", text)}
	}
	return u, nil
}

// database asks for the entry of a name or number in a database of the system, which may be one on another machine.
func database(which, name string) []string {
	out, err := exec.Command("getent", "--", which, name).Output()
	if err != nil {
		return nil
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return strings.Split(string(line), ":")
}

func findUser(name string) (*runner.User, error) {
	u := &runner.User{Home: "/", Shell: "/bin/sh"}
	entry := database("passwd", name)
	if len(entry) < 7 { // the system has no getent: what is in /etc/passwd is found without it
		local, err := user.Lookup(name)
		if err != nil {
			local, err = user.LookupId(name)
		}
		if err != nil {
			return nil, errors.New("the machine has no such user")
		}
		entry = []string{local.Username, "", local.Uid, local.Gid, "", local.HomeDir, ""}
	}
	u.Name = entry[0]
	for at, to := range map[int]*string{5: &u.Home, 6: &u.Shell} {
		if entry[at] != "" {
			*to = entry[at]
		}
	}
	var err error
	if u.UID, err = number32(entry[2]); err != nil {
		return nil, err
	}
	if u.GID, err = number32(entry[3]); err != nil {
		return nil, err
	}
	u.Groups, err = groupsOf(u.Name)
	return u, err
}

// groupsOf are the supplementary groups of a user.
func groupsOf(name string) (groups []uint32, err error) {
	out, err := exec.Command("id", "-G", "--", name).Output()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %s cannot be found: %w", name, err)
	}
	for text := range strings.FieldsSeq(string(out)) {
		n, err := number32(text)
		if err != nil {
			return nil, err
		}
		groups = append(groups, n)
	}
	slices.Sort(groups)
	return groups, nil
}

func findGroup(name string) (uint32, error) {
	if entry := database("group", name); len(entry) > 2 {
		return number32(entry[2])
	}
	if g, err := user.LookupGroup(name); err == nil {
		return number32(g.Gid)
	}
	return 0, fmt.Errorf("the machine has no group %s", name)
}

func number32(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, fmt.Errorf("%q is not a number of a user or group", text)
	}
	return uint32(n), nil
}
