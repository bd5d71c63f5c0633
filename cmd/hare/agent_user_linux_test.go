package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// --run-as finds a user with its groups, and refuses what would be no protection.
func TestUserOfTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := taskUser("daemon"); err == nil || !strings.Contains(err.Error(), "start it as root") {
			t.Error(err)
		}
		t.Skip("only root may start tasks as another user")
	}
	u, err := taskUser("daemon:adm")
	if err != nil || u.UID != 1 || u.GID != 4 || !slices.Contains(u.Groups, 1) || u.Name != "daemon" || u.Home == "" {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := taskUser("1"); err != nil || u.UID != 1 || u.GID != 1 || u.Name != "daemon" {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := taskUser("root"); err != nil || u.UID != 0 {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := taskUser(""); err != nil || u != nil {
		t.Errorf("%+v %v", u, err)
	}
	for text, says := range map[string]string{"no-such-user": "no such user", "00": "another name of root",
		"daemon:no-such-group": "no group", ":adm": "no such user", "-x": "no such user"} {
		if u, err := taskUser(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v %v", text, u, err)
		}
	}
}
