package guard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// The bounds of a token's length, in bytes. An attacker can't guess more than 16 random bytes; `openssl rand -hex 32` prints 64 characters.
const (
	shortest = 17
	longest  = 4096
)

// keys has the digests of the valid tokens, not the tokens themselves. (Package secret has the tokens, to keep them out of texts.)
type keys struct {
	hooks, readers [][sha256.Size]byte
	// problems describes invalid files, without their tokens.
	problems []string
}

// parseKeys collects the valid tokens, and the problems of the others. A missing or empty file contains no token, so that the Secret's
// second key need not exist between two rotations. A reader's token never admits a caller to the hooks, even if it is also among the hooks'
// tokens.
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
			k.problems = append(k.problems, "a reader's token is also a token for the hooks: it is refused for the hooks; use different tokens")
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
		return digest, false, fmt.Sprintf("contains a token of %d bytes: a token needs at least %d (openssl rand -hex 32 prints a good one)", len(text), shortest)
	case len(text) > longest:
		return digest, false, fmt.Sprintf("contains %d bytes: a token has at most %d", len(text), longest)
	case bytes.ContainsFunc(text, notToken):
		return digest, false, "contains more than one token of printable characters: use one file for each token"
	}
	secret.Keep("tokens in "+f.path, string(text))
	return sha256.Sum256(text), true, ""
}

// among compares a digest with all tokens' digests, in a time that reveals neither which one matched nor how much of it.
func among(tokens [][sha256.Size]byte, presented [sha256.Size]byte) bool {
	found := 0
	for i := range tokens {
		found |= subtle.ConstantTimeCompare(tokens[i][:], presented[:])
	}
	return found == 1
}
