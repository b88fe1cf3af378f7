package copies

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// hashLen is how many hex digits of SHA-256 make a name unique: 40 bits.
const hashLen = 10

// OnDevice is the name of the copy of a workload that runs everywhere.
func OnDevice(workload, device string) string { return joined(workload, device) }

// Ordinal is the name of one of the replicas of a workload.
func Ordinal(workload string, n int32) string { return joined(workload, strconv.Itoa(int(n))) }

// joined is "workload.rest". Where that is too long, or a dot in the workload's name would make it ambiguous, a hash of both
// parts keeps it unique.
func joined(workload, rest string) string {
	name := workload + "." + rest
	if len(name) <= api.MaxNameLen && !strings.Contains(workload, ".") {
		return name
	}
	return Shortened(name, Hash(workload+"\x00"+rest))
}

// Shortened is name and hash, cut to the longest name allowed.
func Shortened(name, hash string) string {
	if room := api.MaxNameLen - 1 - len(hash); len(name) > room {
		name = strings.TrimRight(name[:room], "-.")
	}
	return name + "-" + hash
}

// Hash is short and made of the letters of a name.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLen]
}
