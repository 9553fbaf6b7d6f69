package guard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
)

// A token is at least so long, in bytes: more than 16 random ones cannot be guessed. `openssl rand -hex 32` makes 64.
const (
	shortest = 17
	longest  = 4096
)

// keys are the digests of the tokens that are good now: tokens themselves are not kept.
type keys struct {
	hooks, readers [][sha256.Size]byte
	// problems say what is wrong with the files; no token is in them.
	problems []string
}

// parseKeys takes every good token and says what is wrong with the others. A file that is missing or empty holds none, so that
// the Secret's second key need not exist between two rotations. A reader's token never opens the hooks, whatever else it is.
func parseKeys(files []content, hookFiles []string) (k keys) {
	for _, f := range files {
		digest, some, problem := parseToken(f)
		switch {
		case problem != "":
			k.problems = append(k.problems, f.path+" "+problem)
		case !some:
		case slices.Contains(hookFiles, f.path):
			k.hooks = append(k.hooks, digest)
		default:
			k.readers = append(k.readers, digest)
		}
	}
	k.hooks = slices.DeleteFunc(k.hooks, func(d [sha256.Size]byte) bool {
		shared := slices.Contains(k.readers, d)
		if shared {
			k.problems = append(k.problems, "a reader's token is a token for the hooks, too: a reader would hold the hooks' key, so it opens no hook")
		}
		return shared
	})
	return k
}

func parseToken(f content) (digest [sha256.Size]byte, some bool, problem string) {
	text := bytes.TrimSpace(f.text)
	notToken := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case f.err != nil:
		return digest, false, "cannot be read: " + strings.TrimPrefix(f.err.Error(), "open "+f.path+": ")
	case len(text) == 0:
		return digest, false, ""
	case len(text) < shortest:
		return digest, false, fmt.Sprintf("holds a token of %d bytes: one needs at least %d (openssl rand -hex 32 makes a good one)", len(text), shortest)
	case len(text) > longest:
		return digest, false, fmt.Sprintf("holds %d bytes: a token has at most %d", len(text), longest)
	case bytes.ContainsFunc(text, notToken):
		return digest, false, "holds more than one token of printable characters: give each a file of its own"
	}
	return sha256.Sum256(text), true, ""
}

// among compares with every one, in a time that tells neither which it was nor how much of it was right.
func among(tokens [][sha256.Size]byte, presented [sha256.Size]byte) bool {
	found := 0
	for i := range tokens {
		found |= subtle.ConstantTimeCompare(tokens[i][:], presented[:])
	}
	return found == 1
}
