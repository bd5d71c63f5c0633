package ledger

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Masked stands in the place of a value that is not shown.
const Masked = "***"

// masked has the names of variables, and Masked in the place of their values; nil where there are none.
func masked(env map[string]string) map[string]string {
	if len(env) == 0 {
		return nil
	}
	names := make(map[string]string, len(env))
	for name := range env {
		names[name] = Masked
	}
	return names
}

// Mask hides the values of all variables of a job from whoever may look at jobs alone.
func Mask(j *clusterdoc.Job) { j.Env, j.SecretEnv = masked(j.Env), masked(j.SecretEnv) }

// env is all variables of a job that has not ended.
func (j *job) env() map[string]string {
	if len(j.spec.SecretEnv) == 0 {
		return j.spec.Env
	}
	all := make(map[string]string, len(j.spec.Env)+len(j.spec.SecretEnv))
	maps.Copy(all, j.spec.Env)
	maps.Copy(all, j.spec.SecretEnv)
	return all
}

// SumSecrets is a hash of secret variables, by which equal ones are known when their values are not kept any more; ""
// where there are none. The salt, which is part of the sum, must be random.
func SumSecrets(env map[string]string, salt string) string {
	if len(env) == 0 {
		return ""
	}
	text, _ := json.Marshal(env) // cannot fail, and sorts the names
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write(text)
	return salt + "." + hex.EncodeToString(mac.Sum(nil))
}

// Submitted reports whether the job of an ID was submitted as one of the given forms.
func (l *Ledger) Submitted(id string, forms ...clusterdoc.NewJob) bool {
	j := l.find(id)
	if j == nil {
		return false
	}
	salt, _, _ := strings.Cut(j.secretSum, ".")
	was := j.spec
	was.SecretEnv = nil
	old, err := json.Marshal(was)
	if err != nil {
		return false
	}
	for _, f := range forms {
		sum := SumSecrets(f.SecretEnv, salt)
		f.SecretEnv = nil
		text, err := json.Marshal(f)
		if err == nil && bytes.Equal(old, text) && subtle.ConstantTimeCompare([]byte(sum), []byte(j.secretSum)) == 1 {
			return true
		}
	}
	return false
}
