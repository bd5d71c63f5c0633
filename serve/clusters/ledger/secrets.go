package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maskedValue takes the place of a value that is not shown.
const maskedValue = "***"

// masked has the names of variables, and maskedValue in the place of their values; nil where there are none.
func masked(env map[string]string) map[string]string {
	if len(env) == 0 {
		return nil
	}
	names := make(map[string]string, len(env))
	for name := range env {
		names[name] = maskedValue
	}
	return names
}

// Mask hides the values of all variables of a job from whoever may look at jobs alone.
func Mask(j *clusterdoc.Job) { j.Env, j.SecretEnv = masked(j.Env), masked(j.SecretEnv) }

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
